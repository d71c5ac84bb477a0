/** The pairs of a replay; one of them opened has what both said, side by side. */
import { useState } from 'preact/hooks';
import { get } from '../../api';
import { count, dollars } from '../../format';
import type { Replay, ReplayItem } from '../../generated/api';
import { Messages } from '../../parts/Messages';
import { Empty, Fault, Loaded, Skeleton } from '../../parts/States';
import { useResource } from '../../resource';
import { here, place, to } from '../../router';
import { nameOf, ofPair } from './units';

const PAGE = 50, STATES: (ReplayItem['status'] | null)[] = [null, 'done', 'refused', 'running', 'pending'];

export function ReplayItems({ replay }: { replay: Replay }) {
  const query = place.value.query, state = (query.get('state') as ReplayItem['status'] | null) ?? null, open = query.get('item');
  const key = `replay-items|${replay.id}|${state}|${replay.items['done'] ?? 0}`, path = { id: replay.id };
  const found = useResource(key, (signal) => get('GET /replays/{id}/items', { path, query: { limit: PAGE, status: state }, signal }));
  const [more, setMore] = useState<{ key: string; rows: ReplayItem[]; next: string | null } | null>(null), later = more?.key === key ? more : null;
  const load = async (after: string) => {
    const page = await get('GET /replays/{id}/items', { path, query: { limit: PAGE, status: state, after } });
    setMore({ key, rows: [...(later?.rows ?? []), ...page.data], next: page.next });
  };
  return (
    <Loaded from={{ ...found, loading: found.loading && !found.data }} lines={8}>
      {(page) => {
        const rows = [...page.data, ...(later?.rows ?? [])], next = later ? later.next : page.next, metrics = metricsOf(rows);
        return (
          <section class="panel flush">
            <div class="panel-head"><h2>Pairs</h2><nav class="segments" aria-label="Which pairs">{STATES.map((each) => <a key={each ?? 'all'} href={here({ state: each, item: null })} aria-current={state === each ? 'true' : undefined}>{each ?? 'all'}</a>)}</nav></div>
            {rows.length === 0 ? <Empty title={`No pair is ${state ?? 'there'}`} /> : (
              <div class="scroll" tabIndex={0} role="region" aria-label="Pairs">
                <table class="rows list cards still">
                  <thead><tr><th scope="col" class="n">Pair</th><th scope="col">State</th><th scope="col">Same</th>{metrics.map((each) => <th key={each} scope="col" class="n">{nameOf(each)}</th>)}<th scope="col" class="n">Cost of the replay</th><th scope="col">Requests</th><th scope="col"><span class="sr">Acts</span></th></tr></thead>
                  <tbody>{rows.map((each) => <Row key={each.number} item={each} metrics={metrics} open={open === String(each.number)} columns={metrics.length + 6} />)}</tbody>
                </table>
              </div>
            )}
            {next && <p class="more"><button class="button" onClick={() => void load(next)}>More</button></p>}
          </section>
        );
      }}
    </Loaded>
  );
}

/** What is compared in the list: amounts first, and only failures that there are. */
function metricsOf(rows: ReplayItem[]): string[] {
  const names = new Set<string>();
  for (const row of rows)
    for (const values of [row.original, row.replayed])
      for (const [name, value] of Object.entries(values ?? {})) if (typeof value === 'number' || value === true) names.add(name);
  const rank = (name: string) => (name === 'input_tokens' ? 9 : name.endsWith('_us') ? 0 : name.endsWith('_microusd') ? 1 : 2);
  return [...names].sort((a, b) => rank(a) - rank(b)).slice(0, 4);
}

function Row({ item, metrics, open, columns }: { item: ReplayItem; metrics: string[]; open: boolean; columns: number }) {
  return (
    <>
      <tr class={open ? 'on' : ''}>
        <td class="n" data-name="pair">{count(item.number)}</td>
        <td><span class={`tag ${item.status === 'done' ? 'ok' : item.status === 'refused' ? 'warn' : 'info'}`}>{item.status}</span>{item.reason && <span class="dim"> {item.reason.replaceAll('_', ' ')}</span>}</td>
        <td data-name="same">{item.same === null ? <span class="dim">–</span> : item.same ? 'yes' : 'no'}</td>
        {metrics.map((each) => <td key={each} class="n" data-name={nameOf(each)}>{ofPair(each, item.original?.[each])} → {ofPair(each, item.replayed?.[each])}</td>)}
        <td class="n">{dollars(item.cost_usd)}</td>
        <td><a class="link" href={to('/requests', { id: item.original_id, range: '90d' })}>original</a>{item.inference_id && <>, <a class="link" href={to('/requests', { id: item.inference_id, range: '90d' })}>replayed</a></>}</td>
        <td class="n end">{item.inference_id && <a class="button small" aria-expanded={open} href={here({ item: open ? null : item.number })}>{open ? 'Hide' : 'Compare'}</a>}</td>
      </tr>
      {open && item.inference_id && <tr class="aside"><td colSpan={columns} class="full"><Pair original={item.original_id} replayed={item.inference_id} /></td></tr>}
    </>
  );
}

function Pair({ original, replayed }: { original: string; replayed: string }) {
  const found = useResource(`pair|${original}|${replayed}`, async (signal) => {
    const [before, after] = await Promise.all([original, replayed].map((id) => get('GET /inferences/{id}', { path: { id }, query: { content: 'messages' }, signal })));
    return { before: before!, after: after! };
  });
  if (found.error && !found.data) return <Fault error={found.error} retry={found.reload} />;
  if (!found.data) return <Skeleton lines={4} />;
  const { before, after } = found.data;
  return (
    <div class="rows-of">
      {before.messages && <Messages messages={before.messages.input} />}
      <div class="pairing">
        {[before, after].map((each, index) => (
          <div key={index}>
            <h3>{index ? 'Replayed' : 'Original'}: {each.served_provider ?? 'nowhere'}/{each.served_model ?? ''}</h3>
            {each.messages?.output.length ? <Messages messages={each.messages.output} /> : <p class="note">{each.messages?.problems[0] ? each.messages.problems[0] : each.error ? `It failed: ${each.error}` : 'What it said is not kept, or your role does not show it.'}</p>}
          </div>
        ))}
      </div>
    </div>
  );
}
