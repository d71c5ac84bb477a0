/** Questions of sums, and their answers as series: what is missing in between is zero, as nothing came. */
import { ApiError, call, get } from './api';
import { zone } from './format';
import type { Analytics, AnalyticsFilters, AnalyticsRow, Operations } from './generated/api';
import type { TimeRange } from './scope';

export type Question = Operations['GET /analytics']['query'];

export function ask(question: { [K in keyof Question]?: Question[K] | null }, signal: AbortSignal): Promise<Analytics> {
  return get('GET /analytics', { query: { time_zone: zone(), ...question }, signal });
}

/** Several questions, answered of one moment: so what they say agrees. */
export async function askAll<K extends string>(questions: Record<K, AnalyticsFilters>, signal: AbortSignal): Promise<Record<K, Analytics>> {
  const named = Object.fromEntries(Object.entries<AnalyticsFilters>(questions).map(([name, question]) => [name, { time_zone: zone(), ...question }]));
  const { answers } = (await call('POST /analytics/batch', { body: { questions: named }, signal })).data;
  const found = {} as Record<K, Analytics>;
  for (const name of Object.keys(questions) as K[]) {
    const answer = answers[name];
    if (!answer?.analytics) throw new ApiError(400, answer?.error?.message ?? 'The question has no answer.', null, answer?.error?.param ?? null, null, null);
    found[name] = answer.analytics;
  }
  return found;
}

export interface Series {
  times: number[];
  /** Milliseconds between two points. */
  step: number;
  rows: (AnalyticsRow | null)[][];
}

const STEPS = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

/** One row for each time and group; `groups` are those of `by`, or one if there is none. */
export function series(answer: Analytics, range: TimeRange, by: string | null = null, groups: (string | null)[] = [null]): Series {
  const step = STEPS[range.interval], found = new Map<string, AnalyticsRow>();
  for (const row of answer.data) if (row.time) found.set(`${stamp(Date.parse(row.time), range)}|${by ? row.group[by] : null}`, row);
  const times: number[] = [];
  const first = Date.parse(answer.since), end = Math.min(Date.parse(answer.until), Date.now());
  for (let at = first; at < end; at += step) times.push(at);
  return { times, step, rows: groups.map((group) => times.map((at) => found.get(`${stamp(at, range)}|${group}`) ?? null)) };
}

/** Days are those of the reader's zone, which may be an hour shorter or longer. */
function stamp(at: number, range: TimeRange): string {
  if (range.interval !== 'day') return String(Math.floor(at / STEPS[range.interval]));
  return new Intl.DateTimeFormat('en-CA', { timeZone: zone() }).format(new Date(at + 2 * 3_600_000));
}

export const column = (rows: (AnalyticsRow | null)[], value: (row: AnalyticsRow) => number) => rows.map((row) => (row ? value(row) : 0));

/** The sum of everything asked for. */
export const total = (answer: Analytics): AnalyticsRow | null => answer.data[0] ?? null;
