/** Six numbers with their change and course, each a link to the rows behind it. */
import { column, series, total } from '../../analytics';
import { Spark } from '../../charts/Spark';
import { change, compact, count, duration, money, percent, points } from '../../format';
import type { AnalyticsRow } from '../../generated/api';
import { to } from '../../router';
import type { Sums } from './sums';

interface Tile {
  label: string;
  value: string;
  exact: string;
  delta: string;
  tone: '' | 'good' | 'bad';
  course: number[];
  colour: string;
  address: string;
}

const failedShare = (row: AnalyticsRow | null) => (row && row.requests > 0 ? row.failed / row.requests : 0);
const refusedShare = (row: AnalyticsRow | null) => (row && row.requests + row.refused > 0 ? row.refused / (row.requests + row.refused) : 0);

export function Tiles({ sums }: { sums: Sums }) {
  const now = total(sums.all), then = total(sums.earlier), course = series(sums.overTime, sums.range).rows[0]!;
  const p95 = now?.duration?.p95 ?? null, earlierP95 = then?.duration?.p95 ?? null;
  const first = now?.first_token?.p50 ?? null, earlierFirst = then?.first_token?.p50 ?? null;
  const tiles: Tile[] = [
    { label: 'Requests', value: compact(now?.requests ?? 0), exact: count(now?.requests ?? 0), delta: change(now?.requests ?? 0, then?.requests ?? 0), tone: '', course: column(course, (row) => row.requests), colour: 'c1', address: to('/requests') },
    { label: 'Failed', value: percent(failedShare(now), 2), exact: `${count(now?.failed ?? 0)} requests`, delta: then?.requests ? points(failedShare(now), failedShare(then)) : '', tone: tone(failedShare(now), failedShare(then), 0.001), course: measured(course, (row) => (row.requests ? failedShare(row) : null)), colour: 'c5', address: to('/requests', { outcome: 'failed' }) },
    { label: now?.unpriced ? 'Cost, in part unpriced' : 'Cost', value: money(now?.cost_microusd ?? 0), exact: `${money(now?.estimated_microusd ?? 0)} of it estimated, ${count(now?.unpriced ?? 0)} requests without a price`, delta: change(now?.cost_microusd ?? 0, then?.cost_microusd ?? 0), tone: '', course: column(course, (row) => row.cost_microusd), colour: 'c1', address: to('/cost') },
    { label: 'Latency, p95', value: duration(p95), exact: '95 of 100 requests took less', delta: difference(p95, earlierP95), tone: tone(p95 ?? 0, earlierP95 ?? 0, (earlierP95 ?? 0) * 0.05), course: measured(course, (row) => row.duration?.p95 ?? null), colour: 'c1', address: to('/requests', { min_duration_us: p95 }) },
    { label: 'First token, median', value: duration(first), exact: 'of streamed requests', delta: difference(first, earlierFirst), tone: tone(first ?? 0, earlierFirst ?? 0, (earlierFirst ?? 0) * 0.05), course: measured(course, (row) => row.first_token?.p50 ?? null), colour: 'c1', address: to('/requests') },
    { label: 'Refused', value: percent(refusedShare(now), 2), exact: `${count(now?.refused ?? 0)} requests, which count in nothing else`, delta: then && then.requests + then.refused > 0 ? points(refusedShare(now), refusedShare(then)) : '', tone: '', course: column(course, refusedShare), colour: 'c2', address: to('/requests', { show: 'refused' }) },
  ];
  return (
    <ul class="tiles">
      {tiles.map((tile) => (
        <li key={tile.label}>
          <a class="panel tile" href={tile.address} title={tile.exact}>
            <span class="label">{tile.label}</span>
            <span class="value">{tile.value}</span>
            <span class={`delta ${tile.tone}`}>{tile.delta}</span>
            <Spark values={tile.course} colour={tile.colour} />
          </a>
        </li>
      ))}
    </ul>
  );
}

/** The course of what cannot be measured where nothing came: those times are left out. */
function measured(rows: (AnalyticsRow | null)[], value: (row: AnalyticsRow) => number | null): number[] {
  return rows.flatMap((row) => (row ? (value(row) ?? []) : []));
}

/** A change within what is usual is neither good nor bad. */
function tone(now: number, then: number, usual: number): '' | 'good' | 'bad' {
  return then === 0 || Math.abs(now - then) <= usual ? '' : now > then ? 'bad' : 'good';
}

function difference(now: number | null, then: number | null): string {
  if (now === null || then === null) return '';
  const by = now - then;
  return by === 0 ? 'no change' : `${by > 0 ? '+' : '−'}${duration(Math.abs(by))}`;
}
