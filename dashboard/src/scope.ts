/** The team and the time range of every view, as the address has them. A relative range stays relative. */
import { place } from './router';
import { day, dayAndClock, inUtc } from './format';

export interface TimeRange {
  /** Of the address; null: two points in time. */
  name: string | null;
  /** It lasts until now, and goes on. */
  open: boolean;
  since: string;
  until: string;
  seconds: number;
  label: string;
  /** The interval at which charts over this range have their points. */
  interval: 'minute' | 'hour' | 'day';
}

/** Those that end now. */
export const RANGES: [string, string, number][] = [
  ['1h', 'Last hour', 3600],
  ['24h', 'Last 24 hours', 86_400],
  ['7d', 'Last 7 days', 7 * 86_400],
  ['30d', 'Last 30 days', 30 * 86_400],
  ['90d', 'Last 90 days', 90 * 86_400],
];
/** Days of the reader's zone: their name, and how many days before today they begin and end. Today ends now. */
export const DAYS: [string, string, number, number][] = [
  ['today', 'Today', 0, -1],
  ['yesterday', 'Yesterday', 1, 0],
];
const DEFAULT = '7d';
const ROUND_MS = 60_000;

/** Rounded to whole minutes, so that one view asks every question for the same time. */
export function timeRange(): TimeRange {
  const query = place.value.query, since = query.get('since'), until = query.get('until');
  if (since && !Number.isNaN(Date.parse(since))) {
    const from = Date.parse(since), parsed = until ? Date.parse(until) : NaN, end = Number.isNaN(parsed) ? roundedNow() : parsed;
    return range(null, false, from, Math.max(end, from + ROUND_MS), `${dayAndClock(from)} to ${dayAndClock(end)}`);
  }
  const name = query.get('range') ?? DEFAULT, end = roundedNow(), day = DAYS.find(([key]) => key === name);
  if (day) return range(day[0], day[3] < 0, midnight(day[2]), day[3] < 0 ? end : midnight(day[3]), day[1]);
  const found = RANGES.find(([key]) => key === name) ?? RANGES[2]!;
  return range(found[0], true, end - found[2] * 1000, end, found[1]);
}

/** When the day began that is so many days before today. */
function midnight(daysBefore: number): number {
  const at = new Date();
  return inUtc.value ? Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate() - daysBefore) : new Date(at.getFullYear(), at.getMonth(), at.getDate() - daysBefore).getTime();
}

function range(name: string | null, open: boolean, since: number, until: number, label: string): TimeRange {
  const seconds = (until - since) / 1000;
  const interval = seconds <= 3 * 3600 ? 'minute' : seconds <= 8 * 86_400 ? 'hour' : 'day';
  return { name, open, since: new Date(since).toISOString(), until: new Date(until).toISOString(), seconds, label, interval };
}

const roundedNow = () => Math.ceil(Date.now() / ROUND_MS) * ROUND_MS;

/** The time of the same length before. */
export function before(current: TimeRange): { since: string; until: string } {
  return { since: new Date(Date.parse(current.since) - current.seconds * 1000).toISOString(), until: current.since };
}

export const scopeTeam = () => place.value.query.get('team');

export function describe(current: TimeRange): string {
  const from = day(current.since), end = day(current.until);
  if (DAYS.some(([name]) => name === current.name)) return `${current.label}, ${from}`;
  return current.seconds <= 86_400 ? `${dayAndClock(current.since)} to ${dayAndClock(current.until)}` : `${from} to ${end}`;
}
