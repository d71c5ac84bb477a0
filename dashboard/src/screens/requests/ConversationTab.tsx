/** What was said: the request's messages and the response, whatever the API and whether it was streamed. */
import { count } from '../../format';
import type { InferenceWithContent } from '../../generated/api';
import { Messages } from '../../parts/Messages';
import { Empty } from '../../parts/States';
import { pretty, Text } from '../../parts/Text';
import { mayAnywhere } from '../../session';
import { readContent } from './read_content';

export function ConversationTab({ row }: { row: InferenceWithContent }) {
  const said = readContent(row);
  if (row.content_hidden || (!row.content?.request && !row.content?.response)) return <NotKept row={row} />;
  return (
    <div class="rows-of">
      {said.problem && <p class="note">{said.problem}</p>}
      {said.input ? <Messages messages={said.input} /> : row.content?.request && <div><h3>Request</h3><Text text={pretty(row.content.request)} code /></div>}
      {said.output ? <Messages messages={said.output} /> : row.content?.response && <div><h3>Response</h3><Text text={pretty(row.content.response)} code /></div>}
      {said.tools > 0 && <p class="note">{count(said.tools)} tools were offered; "Raw" has their schemas.</p>}
      <p class="note">Shown as text. Content policy: {row.content?.policy}.</p>
    </div>
  );
}

/** Why nothing of what was said is here, and who could change that. */
export function NotKept({ row }: { row: InferenceWithContent }) {
  if (row.content_hidden || !mayAnywhere('records:content'))
    return <Empty title="Your role does not show what was written"><p class="note">That takes the permission records:content, which owners, editors and auditors have.</p></Empty>;
  if (row.erased_at) return <Empty title="What was written is erased"><p class="note">An erasure removed it for good.</p></Empty>;
  return <Empty title="What was written is not kept"><p class="note">The content policy of team {row.content_team ?? row.team} keeps none of it, or its retention has ended. A team's policy is set under Teams and keys.</p></Empty>;
}
