/** What every request of the playground is sent with. Each refusal of the API is shown at the field that it is about. */
import type { ComponentChildren } from 'preact';
import type { ApiError } from '../../api';
import { get } from '../../api';
import { Area, Choice, Field, isOfField } from '../../parts/Field';
import { go, here } from '../../router';
import { useResource } from '../../resource';
import { may, mayAnywhere, session } from '../../session';
import { setting, clear, draft, write } from './state';

const EFFORTS: [string, string][] = [['', 'The model’s default'], ...['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'].map((each): [string, string] => [each, each])];
const EXAMPLE_TOOLS = [{ type: 'function', function: { name: 'find_parcel', description: 'Finds a parcel', parameters: { type: 'object', properties: { order: { type: 'string' } }, required: ['order'] } } }];
const EXAMPLE_SCHEMA = { type: 'object', properties: { answer: { type: 'string' }, is_certain: { type: 'boolean' } }, required: ['answer', 'is_certain'], additionalProperties: false };
const example = (value: unknown) => JSON.stringify(value, null, 2);

export const set = (name: string, value: string) => go(here({ [name]: value || null }), { replace: true, keepScroll: true });

export function Settings({ error, keysError }: { error: ApiError | null; keysError: ApiError | null }) {
  const written = draft.value;
  return (
    <section class="panel play-settings" aria-label="Settings">
      <div class="form">
        <KeyChoice error={keysError} />
        <div class="field">
          <label for="system">System message</label>
          <textarea id="system" class="input" rows={4} value={written.system} placeholder="You are …" onInput={(event) => write({ system: event.currentTarget.value })} />
        </div>
        <div class="pair">
          <Field name="temperature" label="Temperature" type="number" value={setting('temperature')} set={(value) => set('temperature', value)} placeholder="default" error={error} />
          <Field name="max_tokens" label="Most tokens" type="number" value={setting('max_tokens')} set={(value) => set('max_tokens', value)} placeholder="default" error={error} params={['max_tokens', 'max_completion_tokens']} />
        </div>
        <Choice name="effort" label="Reasoning effort" value={setting('effort')} set={(value) => set('effort', value)} options={EFFORTS} error={error} params={['reasoning_effort']} />
        <Part title="Tools" filled={written.tools !== ''} error={error} names={['tools', 'tool_choice']}>
          <Area name="tools" label="Tools, as JSON" value={written.tools} set={(tools) => write({ tools })} rows={8} placeholder="[{&quot;type&quot;: &quot;function&quot;, …}]" error={error} params={['tools']} hint={<>As in OpenAI’s API. {!written.tools && <button type="button" class="link as-link" onClick={() => write({ tools: example(EXAMPLE_TOOLS) })}>Insert an example</button>}</>} />
          <Choice name="tool_choice" label="Which are called" value={setting('tool_choice')} set={(value) => set('tool_choice', value)} options={[['', 'as the model decides'], ['required', 'at least one'], ['none', 'none']]} error={error} />
        </Part>
        <Part title="Structured output" filled={written.schema !== ''} error={error} names={['response_format']}>
          <Area name="schema" label="JSON schema of the answer" value={written.schema} set={(schema) => write({ schema })} rows={8} placeholder="{&quot;type&quot;: &quot;object&quot;, …}" error={error} params={['response_format']} hint={!written.schema && <button type="button" class="link as-link" onClick={() => write({ schema: example(EXAMPLE_SCHEMA) })}>Insert an example</button>} />
        </Part>
        <Part title="More parameters" filled={written.more !== ''} error={error} names={['more']}>
          <Area name="more" label="Other fields of the body, as JSON" value={written.more} set={(more) => write({ more })} rows={4} placeholder="{&quot;top_p&quot;: 0.9}" error={error} hint="They are sent beside the ones above, and instead of those of the same name." />
        </Part>
      </div>
    </section>
  );
}

function Part(props: { title: string; filled: boolean; error: ApiError | null; names: string[]; children: ComponentChildren }) {
  return (
    <details class="play-part" open={props.filled || isOfField(props.error, props.names)}>
      <summary>{props.title}{props.filled && <span class="tag info">set</span>}</summary>
      <div class="form">{props.children}</div>
    </details>
  );
}

/** In the name of which key it runs. A caller's key has none but itself. */
function KeyChoice({ error }: { error: ApiError | null }) {
  const current = session.value!, chooses = current.kind !== 'caller' && mayAnywhere('keys:write');
  const keys = useResource(chooses ? `keys-to-play|${current.id}` : null, async (signal) => (await get('GET /keys', { query: { limit: 200, state: 'valid', sort: 'team' }, signal })).data.filter((each) => may('keys:write', each.team) && (!each.admin || may('admin_keys:write'))));
  if (!chooses) return <p class="note">Runs with your key <code>{current.id}</code>, by its rights and limits.</p>;
  const own = current.kind === 'key', chosen = setting('as');
  const options: [string, string][] = (keys.data ?? []).filter((each) => each.prefix !== current.id).map((each) => [each.prefix, `${each.team} · ${each.name || each.prefix}${each.admin ? ' (admin)' : ''}`]);
  if (chosen && !options.some(([prefix]) => prefix === chosen)) options.unshift([chosen, chosen]);
  return (
    <Choice
      name="as"
      label="Key"
      value={chosen}
      set={(value) => { clear(); set('as', value); }}
      options={[['', own ? `Yours, ${current.id}` : 'Choose one'], ...options]}
      error={error ?? keys.error ?? null}
      params={['x-narthex-key']}
      hint={chosen ? 'By its rights and limits, and at its cost. The audit log says that it was you.' : own ? 'By its rights and limits, and at its cost.' : 'What is tried counts as that key’s, by its rights and limits.'}
    />
  );
}
