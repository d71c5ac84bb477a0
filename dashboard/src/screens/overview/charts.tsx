/** Requests by outcome, and latency, over time. */
import { column, series, total } from '../../analytics';
import { Figure } from '../../charts/Figure';
import { Lines } from '../../charts/Lines';
import { Stack } from '../../charts/Stack';
import type { Mark } from '../../charts/Stack';
import { get } from '../../api';
import { useResource } from '../../resource';
import { to } from '../../router';
import { may } from '../../session';
import { count, dayAndClock, duration, durationTick, plural, share } from '../../format';
import type { Sums } from './sums';

const DAY_MS = 86_400_000;
const OUTCOMES = [
  { name: 'answered', colour: 'soft' },
  { name: 'disconnected', colour: 'quiet' },
  { name: 'refused', colour: 'c2' },
  { name: 'failed', colour: 'c5' },
] as const;

export function OutcomeChart({ sums }: { sums: Sums }) {
  const marks = useMarks();
  const { times, step, rows } = series(sums.outcomes, sums.range, 'outcome', [...OUTCOMES.map((each) => each.name), 'aborted']);
  // Aborted by the gateway's own end, which is rare: to the reader it is a failure.
  const values = OUTCOMES.map((each, index) => {
    const own = column(rows[index]!, (row) => (each.name === 'refused' ? row.refused : row.requests));
    return each.name === 'failed' ? own.map((value, at) => value + (rows[4]![at]?.requests ?? 0)) : own;
  });
  const shown = OUTCOMES.map((each, index) => ({ ...each, values: values[index]! })).filter((each) => each.name === 'answered' || each.values.some((value) => value > 0));
  const totals = shown.map((each) => each.values.reduce((a, b) => a + b, 0));
  const sum = total(sums.all), served = sum?.requests ?? 0, failed = sum?.failed ?? 0, refused = sum?.refused ?? 0;
  const worst = worstTime(times, shown.find((each) => each.name === 'failed')?.values ?? []);
  const most = worst === null ? '' : `, most at ${dayAndClock(worst)}`;
  const more = refused > 0 ? ` ${count(refused)} more were refused.` : '';
  const note = served + refused === 0 ? 'Nothing came in this time.' : failed === 0 ? `${plural(served, 'request')}, none of which failed.${more}` : `${count(failed)} of ${plural(served, 'request')} failed (${share(failed, served)})${most}.${more}`;
  const before = worst !== null && may('audit:read') && <> <a href={to('/audit', { tab: 'events', range: null, since: new Date(worst - DAY_MS).toISOString(), until: new Date(worst + step).toISOString() })}>What was changed before?</a></>;
  const complete = sums.all.complete_until ? Date.parse(sums.all.complete_until) : null;
  return (
    <Figure
      title="Requests by outcome"
      note={<>{note}{before}</>}
      legend={shown.map(({ name, colour }) => ({ name, colour }))}
      numbers={{ head: ['Time', ...shown.map((each) => each.name)], rows: times.map((at, index) => [dayAndClock(at), ...shown.map((each) => count(each.values[index]!))]).slice(-400) }}
    >
      {(width) => <Stack width={width} times={times} step={step} layers={shown} completeUntil={complete} marks={marks} label={`Requests over time by outcome: ${shown.map((each, index) => `${count(totals[index]!)} ${each.name}`).join(', ')}`} />}
    </Figure>
  );
}

/** Changes of the configuration, so that what followed one can be seen. */
function useMarks(): Mark[] {
  const found = useResource(may('config:read') ? 'marks' : null, (signal) => get('GET /configuration/versions', { query: { limit: 50, sort: '-version' }, signal }));
  return (found.data?.data ?? []).map((each) => ({ at: Date.parse(each.at), text: `v${each.version} ${Object.keys(each.changed).join(', ')}` }));
}

/** When most failures came at once, if they did. */
function worstTime(times: number[], failed: number[]): number | null {
  const sum = failed.reduce((a, b) => a + b, 0), most = Math.max(...failed, 0);
  return sum > 20 && most > (sum / failed.length) * 6 ? times[failed.indexOf(most)]! : null;
}

export function LatencyChart({ sums }: { sums: Sums }) {
  const { times, step, rows } = series(sums.overTime, sums.range), points = rows[0]!;
  const lines = [
    { name: 'p95', colour: 'c1', values: points.map((row) => row?.duration?.p95 ?? null) },
    { name: 'median', colour: 'c3', values: points.map((row) => row?.duration?.p50 ?? null) },
    { name: 'first token, median', colour: 'c2', values: points.map((row) => row?.first_token?.p50 ?? null) },
  ].filter((line) => line.values.some((value) => value !== null));
  return (
    <Figure
      title="Latency"
      note="From the request until its last byte; the first token of those that were streamed."
      legend={lines}
      numbers={{ head: ['Time', ...lines.map((line) => line.name)], rows: times.map((at, index) => [dayAndClock(at), ...lines.map((line) => duration(line.values[index]))]).slice(-400) }}
    >
      {(width) => (lines.length ? <Lines width={width} times={times} step={step} lines={lines} text={durationTick} label="Latency over time: 95th percentile, median, and median to the first token" /> : <p class="note">Nothing was measured in this time.</p>)}
    </Figure>
  );
}
