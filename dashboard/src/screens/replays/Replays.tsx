/** Replays: recorded requests that were answered again by another model. One of them, compared with what it repeats. */
import { call, get } from '../../api';
import { count, dollars, moment } from '../../format';
import type { Operations, Replay } from '../../generated/api';
import { BodyForm } from '../../forms/BodyForm';
import { useNames } from '../../forms/names';
import { Head, When } from '../../parts/Head';
import { Empty, Loaded } from '../../parts/States';
import { Inline } from '../../parts/Text';
import { toast } from '../../parts/Toast';
import { useResource } from '../../resource';
import { go, here, place, to } from '../../router';
import { mayAnywhere } from '../../session';
import { ReplayView } from './ReplayView';

const STATES: [Replay['status'] | null, string][] = [[null, 'All'], ['running', 'Running'], ['complete', 'Complete'], ['failed', 'Failed'], ['cancelled', 'Cancelled']];
const mayStart = () => mayAnywhere('records:content') && mayAnywhere('keys:write');

export function Replays() {
  const id = place.value.path.split('/')[2];
  if (id) return <ReplayView key={id} id={id} />;
  return place.value.query.has('new') && mayStart() ? <NewReplay /> : <ReplayList />;
}

function ReplayList() {
  const state = (place.value.query.get('state') as Replay['status'] | null) ?? null;
  const found = useResource(`replays|${state}`, (signal) => get('GET /replays', { query: { limit: 100, status: state }, signal }), 15);
  const add = <a class="button primary" href={here({ new: 1 })}>New replay</a>;
  return (
    <>
      <Head title="Replays" about="The same requests, answered by another model">{mayStart() && add}</Head>
      <nav class="segments" aria-label="Which replays">{STATES.map(([value, text]) => <a key={text} href={here({ state: value })} aria-current={state === value ? 'true' : undefined}>{text}</a>)}</nav>
      <Loaded from={{ ...found, loading: found.loading && !found.data }}>
        {(page) => (page.data.length === 0 ? <section class="panel"><Empty title={state ? `No replay is ${state}` : 'No replay yet'}><p>A replay sends recorded requests to another model or variant, in the background and at the cost of a key, and compares both responses.</p>{!state && mayStart() && add}</Empty></section> : (
          <section class="panel flush">
            <div class="scroll" tabIndex={0} role="region" aria-label="Replays">
              <table class="rows list cards still">
                <thead><tr><th scope="col">Started</th><th scope="col">Answered by</th><th scope="col">Which requests</th><th scope="col">State</th><th scope="col" class="n">Done</th><th scope="col" class="n">Spent</th><th scope="col">Team</th><th scope="col">By</th></tr></thead>
                <tbody>{page.data.map((each) => (
                  <tr key={each.id}>
                    <th scope="row"><a class="mono" href={to(`/replays/${each.id}`)}><When at={each.created_at} words={moment(each.created_at)} /></a></th>
                    <td class="preview full"><Inline text={each.definition.model} />{each.definition.variant && <span class="tag">{each.definition.variant}</span>}</td>
                    <td class="preview full">{filterWords(each)}</td>
                    <td><span class={`tag ${toneOf(each)}`}>{each.status}</span></td>
                    <td class="n" data-name="done">{count(each.items['done'] ?? 0)} of {count(itemsOf(each))}</td>
                    <td class="n">{dollars(each.spent_usd)}</td>
                    <td>{each.team ?? <span class="dim">removed</span>}</td>
                    <td class="end">{each.created_by}</td>
                  </tr>
                ))}</tbody>
              </table>
            </div>
          </section>
        ))}
      </Loaded>
    </>
  );
}

export const toneOf = (replay: Replay) => ({ running: 'info', complete: 'ok', failed: 'bad', cancelled: '' })[replay.status];
export const itemsOf = (replay: Replay) => (['done', 'pending', 'running', 'refused'] as const).reduce((sum, each) => sum + (replay.items[each] ?? 0), 0);
export const filterWords = (replay: Replay) => Object.entries(replay.definition.filter).map(([name, value]) => `${name.replaceAll('_', ' ')} ${Array.isArray(value) ? value.join(' or ') : String(value)}`).join(', ') || 'all that were recorded';

function NewReplay() {
  const names = useNames('replays');
  const keys = useResource('keys-of-replays', async (signal) => (await get('GET /keys', { query: { limit: 200, state: 'valid' }, signal })).data.map((each) => each.prefix));
  const query = place.value.query, filter = Object.fromEntries(['model', 'function', 'team', 'outcome'].flatMap((name) => (query.get(name) ? [[name, query.get(name)]] : [])));
  return (
    <BodyForm
      operation="POST /replays"
      title="New replay"
      act="Start it"
      first={['model', 'variant', 'key', 'max_items', 'max_usd', 'filter', 'judge']}
      start={{ filter }}
      suggestions={{ ...names, key: keys.data ?? [] }}
      back={to('/replays')}
      run={async (draft, dryRun) => {
        const made = (await call('POST /replays', { body: draft as unknown as Operations['POST /replays']['body'], query: { dry_run: dryRun } })).data;
        if ('changes' in made) return made;
        toast('The replay has begun');
        go(to(`/replays/${made.id}`));
        return null;
      }}
    />
  );
}
