/** The filters of requests, as the address has them: each is a chip, and each chip is a link without it. */
import { duration, money } from '../../format';
import { here, place } from '../../router';
import { scopeTeam, timeRange } from '../../scope';

export interface Filter {
  name: string;
  /** In words, before the value. */
  words: string;
  /** Whether sums know its values, so that they can be chosen with their counts. */
  counted?: boolean;
  hint?: string;
  show?: (value: string) => string;
}

export const FILTERS: Filter[] = [
  { name: 'outcome', words: 'outcome is', counted: true },
  { name: 'model', words: 'model is', counted: true },
  { name: 'key', words: 'key is', counted: true },
  { name: 'provider', words: 'served by', counted: true },
  { name: 'function', words: 'function is', counted: true },
  { name: 'variant', words: 'variant is', counted: true },
  { name: 'status', words: 'status is', counted: true, hint: '200, or 5xx' },
  { name: 'error', words: 'error is', counted: true },
  { name: 'route', words: 'API is', counted: true },
  { name: 'min_duration_us', words: 'took at least', show: (value) => duration(Number(value)), hint: 'seconds' },
  { name: 'min_cost_microusd', words: 'cost at least', show: (value) => money(Number(value)), hint: 'dollars' },
  { name: 'end_user', words: 'end user is', hint: 'as the caller names them' },
  { name: 'tag', words: 'tag', hint: 'NAME=VALUE' },
  { name: 'text', words: 'contains', hint: 'words, "phrases", -without' },
  { name: 'experiment', words: 'experiment is', hint: 'its name' },
  { name: 'episode_id', words: 'conversation is', hint: 'its id or name' },
  { name: 'served_model', words: 'served model is', hint: "the host's name" },
  { name: 'origin', words: 'made by', hint: 'caller, shadow, replay or judge' },
  { name: 'request_id', words: 'x-request-id is', hint: 'the whole id' },
  { name: 'trace_id', words: 'trace is', hint: '32 digits' },
];

const BY_NAME = new Map(FILTERS.map((each) => [each.name, each]));

/** Those in force, in the order of the address. */
export function filtersInForce(): { filter: Filter; value: string }[] {
  return [...place.value.query].flatMap(([name, value]) => {
    const filter = BY_NAME.get(name);
    return filter && value ? [{ filter, value }] : [];
  });
}

export const shown = (filter: Filter, value: string) => (filter.show ? filter.show(value) : value);

export function without(name: string): string {
  return here({ [name]: null, id: null });
}

export function withFilter(name: string, value: string): string {
  return here({ [name]: value, id: null });
}

/** The filters as the API takes them, with the scope. Ids say where to look, whatever the time range. */
export function apiFilters(): Record<string, string | number> {
  const range = timeRange(), team = scopeTeam(), query: Record<string, string | number> = {};
  for (const { filter, value } of filtersInForce()) query[filter.name] = filter.name.startsWith('min_') ? Number(value) : value;
  if (team) query['team'] = team;
  query['since'] = range.since;
  if (range.name === null) query['until'] = range.until;
  return query;
}

/** What a person typed, as the API takes it: seconds and dollars become millionths. */
export function typed(name: string, text: string): string {
  if (name !== 'min_duration_us' && name !== 'min_cost_microusd') return text.trim();
  const number = Number(text.replace(/[^0-9.]/g, ''));
  return Number.isFinite(number) ? String(Math.round(number * 1e6)) : '';
}
