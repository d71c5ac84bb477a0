/** What was said: the request's messages and the response, whatever the API and whether it was streamed. */
import { count } from '../../format';
import type { InferenceWithContent } from '../../generated/api';
import { Messages } from '../../parts/Messages';
import { Empty } from '../../parts/States';
import { Inline } from '../../parts/Text';

export function ConversationTab({ row }: { row: InferenceWithContent }) {
  const said = row.messages;
  if (!said || (said.input.length === 0 && said.output.length === 0)) return <NotKept row={row} />;
  const settings = Object.entries(said.settings);
  return (
    <div class="rows-of">
      {said.problems.map((each) => <p class="banner" key={each}>{each}</p>)}
      {said.previous_response_id && <p class="note">It goes on from the response <code>{said.previous_response_id}</code>, whose messages are not here.</p>}
      {said.omitted > 0 && <p class="note">{count(said.omitted)} older messages are left out.</p>}
      <Messages messages={[...said.input, ...said.output]} newFrom={said.new_from} />
      {said.tools.length > 0 && (
        <details>
          <summary class="link">{count(said.tools.length)} {said.tools.length === 1 ? 'tool was' : 'tools were'} offered</summary>
          <dl class="facts">{said.tools.map((each) => <><dt><code><Inline text={each.name} /></code></dt><dd><Inline text={each.description ?? 'no description'} /></dd></>)}</dl>
        </details>
      )}
      <p class="note">{settings.length > 0 && <span class="mono">{settings.map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(', ')} · </span>}{said.output_format && `asked for ${said.output_format.kind.replaceAll('_', ' ')} · `}shown as text · content policy: {row.content?.policy ?? 'unknown'}</p>
    </div>
  );
}

/** Why nothing of what was said is here, and who could change that. */
export function NotKept({ row }: { row: InferenceWithContent }) {
  if (row.content_hidden)
    return <Empty title="Your role does not show what was written"><p class="note">That takes the permission records:content, which owners, editors and auditors have.</p></Empty>;
  if (row.erased_at) return <Empty title="What was written is erased"><p class="note">An erasure removed it for good.</p></Empty>;
  return <Empty title="What was written is not kept"><p class="note">The content policy of team {row.content_team ?? row.team} keeps none of it, or its retention has ended. A team's policy is set under Teams and keys.</p></Empty>;
}
