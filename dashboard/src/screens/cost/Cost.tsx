/** What was spent, by anything, in any time; what is estimated or without a price; and exports for finance. */
import { useState } from 'preact/hooks';
import { ask, column, series, total } from '../../analytics';
import { apiAddress, send } from '../../api';
import { Figure } from '../../charts/Figure';
import { Stack } from '../../charts/Stack';
import { change, clock, compact, count, dayAndClock, duration, money, moneyTick, share, zone } from '../../format';
import type { AnalyticsRow, Reconciliation } from '../../generated/api';
import { useSubmit } from '../../parts/Dialog';
import { Choice } from '../../parts/Field';
import { Head } from '../../parts/Head';
import { Empty, Fault, Loaded } from '../../parts/States';
import { useResource } from '../../resource';
import { go, here, place, to } from '../../router';
import { before, describe, scopeTeam, timeRange } from '../../scope';
import { may, session } from '../../session';

const BY: [string, string][] = [['team', 'Team'], ['model', 'Model'], ['target', 'Provider and model'], ['provider', 'Provider'], ['key', 'Key'], ['end_user', 'End user'], ['function', 'Function'], ['variant', 'Variant'], ['route', 'API']];
const SHOWN = 5, COLOURS = ['c1', 'c2', 'c3', 'c4', 'c5'];

export function Cost() {
  const range = timeRange(), team = scopeTeam(), by = place.value.query.get('by') ?? (team ? 'model' : 'team'), scope = { since: range.since, until: range.until, team };
  const key = `cost|${session.value?.id}|${team}|${by}|${range.name ?? range.since + range.until}|${zone()}`;
  const found = useResource(key, async (signal) => {
    const [all, earlier, groups] = await Promise.all([ask(scope, signal), ask({ ...before(range), team }, signal), ask({ ...scope, group_by: by, order_by: 'cost_microusd', limit: 50 }, signal)]);
    const first = groups.data.slice(0, SHOWN).map((row) => row.group[by] ?? '');
    const [time, parts] = await Promise.all([ask({ ...scope, interval: range.interval }, signal), ask({ ...scope, interval: range.interval, group_by: by, order_by: 'cost_microusd', limit: SHOWN }, signal)]);
    return { range, all, earlier, groups, first, time, parts };
  });
  const focus = apiAddress('/costs/focus', {}, { since: range.since, until: range.until });
  return (
    <>
      <Head title="Cost" about={<>{describe(range)}{found.data?.all.complete_until && `, complete until ${clock(found.data.all.complete_until)}`}</>}>
        <label><span class="sr">By</span><select value={by} onChange={(event) => go(here({ by: event.currentTarget.value }))}>{BY.map(([name, text]) => <option key={name} value={name}>by {text.toLowerCase()}</option>)}</select></label>
        {may('records:read') && <a class="button" href={focus} download>Export as FOCUS</a>}
      </Head>
      <Loaded from={found} lines={10}>
        {(data) => {
          const sum = total(data.all), then = total(data.earlier);
          if (!sum || sum.requests === 0) return <section class="panel"><Empty title="Nothing was spent in this time"><p>No request was served{team ? ` for ${team}` : ''}. Choose a longer time above.</p></Empty></section>;
          const whole = series(data.time, data.range), parts = series(data.parts, data.range, by, data.first);
          const layers = data.first.map((name, index) => ({ name: name || 'none', colour: COLOURS[index]!, values: column(parts.rows[index]!, (row) => row.cost_microusd) }));
          const rest = column(whole.rows[0]!, (row) => row.cost_microusd).map((value, at) => Math.max(0, value - layers.reduce((a, layer) => a + layer.values[at]!, 0)));
          if (rest.some((value) => value > 0)) layers.push({ name: 'others', colour: 'quiet', values: rest });
          return (
            <>
              <ul class="tiles four">
                <li class="panel tile plain"><span class="label">Cost</span><span class="value">{money(sum.cost_microusd)}</span><span class="delta">{change(sum.cost_microusd, then?.cost_microusd ?? 0)}</span><span class="under">{money(sum.cost_microusd / (data.range.seconds / 86_400))} a day</span></li>
                <li class="panel tile plain"><span class="label">A thousand requests</span><span class="value">{money((sum.cost_microusd / sum.requests) * 1000)}</span><span class="under">{compact(sum.requests)} requests</span></li>
                <li class="panel tile plain"><span class="label">Estimated</span><span class="value">{share(sum.estimated_microusd, sum.cost_microusd, 1)}</span><span class="under">{money(sum.estimated_microusd)}, where no host said how many tokens</span></li>
                <li class="panel tile plain"><span class="label">Without a price</span><span class="value">{compact(sum.unpriced)}</span><span class="under">{sum.unpriced > 0 ? <><a class="link" href={to('/models', { tab: 'prices' })}>Set prices</a>: these count as $0</> : 'every request has one'}</span></li>
              </ul>
              <Figure title={`Cost by ${name(by)}`} note={`${money(sum.cost_microusd)}, of which ${data.groups.data[0] ? `${data.groups.data[0].group[by] || 'none'} spent ${share(data.groups.data[0].cost_microusd, sum.cost_microusd, 0)}` : 'nothing is known'}.`} legend={layers} numbers={{ head: ['Time', ...layers.map((each) => each.name)], rows: whole.times.map((at, index) => [dayAndClock(at), ...layers.map((each) => money(each.values[index]))]) }}>
                {(width) => <Stack width={width} times={whole.times} step={whole.step} layers={layers} text={money} tick={moneyTick} label={`Cost over time by ${name(by)}, ${money(sum.cost_microusd)} in all`} />}
              </Figure>
              <Groups rows={data.groups.data} by={by} sum={sum} more={data.groups.has_more} />
            </>
          );
        }}
      </Loaded>
      {may('records:read') && <Invoice />}
    </>
  );
}

const name = (by: string) => (BY.find(([key]) => key === by)?.[1] ?? by).toLowerCase();

/** Where a group's rows are, as the list of requests filters by it. */
function rowsOf(by: string, value: string): string {
  if (by === 'team') return to('/requests', { team: value });
  if (by === 'target') return to('/requests', { provider: value.split('/')[0], served_model: value.split('/').slice(1).join('/') });
  return to('/requests', { [by]: value });
}

function Groups({ rows, by, sum, more }: { rows: AnalyticsRow[]; by: string; sum: AnalyticsRow; more: boolean }) {
  const most = Math.max(...rows.map((row) => row.cost_microusd), 1);
  return (
    <section class="panel flush">
      <div class="scroll" tabIndex={0} role="region" aria-label={`Cost by ${name(by)}`}>
        <table class="rows list cards">
          <thead><tr><th scope="col">{BY.find(([key]) => key === by)?.[1]}</th><th scope="col" class="n">Cost</th><th scope="col" class="n">Share</th><th scope="col" class="n">Requests</th><th scope="col" class="n">Input tokens</th><th scope="col" class="n">Output tokens</th><th scope="col" class="n">Cached</th><th scope="col" class="n">Mean latency</th><th scope="col" class="n">Unpriced</th></tr></thead>
          <tbody>
            {rows.map((row) => {
              const value = row.group[by] ?? '', address = value ? rowsOf(by, value) : null;
              // Who spent it; then, on what.
              const deeper = by === 'team' && value ? here({ team: value, by: 'model' }) : address;
              return (
                <tr key={value}>
                  <th scope="row" class="full">{deeper ? <a href={deeper}><bdi>{value}</bdi></a> : <span class="dim">none</span>}</th>
                  <td class="n"><span class="bar"><svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect width={(100 * row.cost_microusd) / most} height="4" /></svg></span><span class="amount">{money(row.cost_microusd)}</span></td>
                  <td class="n">{share(row.cost_microusd, sum.cost_microusd, 1)}</td>
                  <td class="n" data-name="requests">{address ? <a href={address}>{compact(row.requests)}</a> : compact(row.requests)}</td>
                  <td class="n wide-only">{compact(row.input_tokens)}</td>
                  <td class="n wide-only">{compact(row.output_tokens)}</td>
                  <td class="n wide-only">{share(row.cached_tokens, row.input_tokens, 0)}</td>
                  <td class="n wide-only">{duration(row.mean_duration_us)}</td>
                  <td class={`n wide-only${row.unpriced ? ' warn' : ''}`}>{count(row.unpriced)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <p class="more"><span class="dim">{more ? 'The 50 that cost most.' : 'These are all.'} Requests that were refused cost nothing, and are not here.</span></p>
    </section>
  );
}

/** Does a host's invoice agree with what was recorded? */
function Invoice() {
  const [format, setFormat] = useState('openai'), [file, setFile] = useState<File | null>(null), [result, setResult] = useState<Reconciliation | null>(null);
  const form = useSubmit(async () => {
    const response = await send(apiAddress('/costs/reconcile', {}, { format }), { method: 'POST', body: await file!.text(), headers: { 'content-type': 'text/plain' }, credentials: 'same-origin' });
    setResult((await response.json()) as Reconciliation);
  });
  return (
    <section class="panel">
      <div class="panel-head"><h2>Does an invoice agree?</h2><p class="note">A host's usage export against what was recorded here. It is compared, and not kept.</p></div>
      <form class="actions bottom" onSubmit={(event) => { event.preventDefault(); if (file) void form.submit(); }}>
        <Choice name="format" label="Host" value={format} set={setFormat} options={[['openai', 'OpenAI'], ['anthropic', 'Anthropic'], ['bedrock', 'Bedrock'], ['openrouter', 'OpenRouter']]} />
        <div class="field"><label for="invoice">Export</label><input id="invoice" class="input" type="file" onChange={(event) => setFile(event.currentTarget.files?.[0] ?? null)} /></div>
        <button class="button" disabled={!file || form.busy}>{form.busy ? 'Comparing …' : 'Compare'}</button>
      </form>
      {form.error && <Fault error={form.error} />}
      {result && (
        <div class="rows-of">
          <p>From {result.first_day} to {result.last_day}, {result.providers.join(', ')}: we recorded <b>{money(result.our_microusd)}</b>, they say <b>{money(result.their_microusd)}</b>{result.unpriced > 0 && `; ${count(result.unpriced)} of our requests have no price`}.</p>
          <div class="scroll" tabIndex={0} role="region" aria-label="Lines that differ">
            <table class="rows">
              <thead><tr><th scope="col">Day</th><th scope="col">Model</th><th scope="col">Of</th><th scope="col" class="n">Our tokens</th><th scope="col" class="n">Their tokens</th><th scope="col" class="n">Difference</th><th scope="col" class="n">Cost differs by</th></tr></thead>
              <tbody>{result.data.slice(0, 200).map((line) => <tr key={line.day + line.model + line.kind}><th scope="row">{line.day}</th><td>{line.model}</td><td>{line.kind}</td><td class="n">{count(line.our_tokens)}</td><td class="n">{count(line.their_tokens)}</td><td class={`n${line.token_difference ? ' warn' : ''}`}>{count(line.token_difference)}</td><td class="n">{money(line.microusd_difference)}</td></tr>)}</tbody>
            </table>
          </div>
        </div>
      )}
    </section>
  );
}
