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
  /** Whether the API can leave out what has a value. */
  excludes?: boolean;
}

/** Before the name of a filter: what has this value is left out. */
const NOT = 'not_';

export const FILTERS: Filter[] = [
  { name: 'outcome', words: 'outcome is', counted: true, excludes: true },
  { name: 'model', words: 'model is', counted: true, excludes: true },
  { name: 'key', words: 'key is', counted: true, excludes: true },
  { name: 'provider', words: 'served by', counted: true, excludes: true },
  { name: 'function', words: 'function is', counted: true, excludes: true },
  { name: 'variant', words: 'variant is', counted: true, excludes: true },
  { name: 'status', words: 'status is', counted: true, hint: '200, or 5xx', excludes: true },
  { name: 'error', words: 'error is', counted: true, excludes: true },
  { name: 'route', words: 'API is', counted: true, excludes: true },
  { name: 'min_duration_us', words: 'took at least', show: (value) => duration(Number(value)), hint: 'seconds' },
  { name: 'min_cost_microusd', words: 'cost at least', show: (value) => money(Number(value)), hint: 'dollars' },
  { name: 'end_user', words: 'end user is', hint: 'as the caller names them', excludes: true },
  { name: 'tag', words: 'tag', hint: 'NAME=VALUE' },
  { name: 'text', words: 'contains', hint: 'words, "phrases", -without' },
  { name: 'experiment', words: 'experiment is', hint: 'its name', excludes: true },
  { name: 'episode_id', words: 'conversation is', hint: 'its id or name' },
  { name: 'served_model', words: 'served model is', hint: "the host's name", excludes: true },
  { name: 'origin', words: 'made by', hint: 'caller, shadow, replay or judge' },
  { name: 'request_id', words: 'x-request-id is', hint: 'the whole id' },
  { name: 'trace_id', words: 'trace is', hint: '32 digits' },
];

const BY_NAME = new Map(FILTERS.map((each) => [each.name, each]));

export interface InForce {
  filter: Filter;
  value: string;
  /** Everything but this. */
  excluded: boolean;
}

/** Those in force, in the order of the address. */
export function filtersInForce(): InForce[] {
  return [...place.value.query].flatMap(([name, value]) => {
    const excluded = name.startsWith(NOT), filter = BY_NAME.get(excluded ? name.slice(NOT.length) : name);
    return filter && value && (!excluded || filter.excludes) ? [{ filter, value, excluded }] : [];
  });
}

export const nameOf = ({ filter, excluded }: Pick<InForce, 'filter' | 'excluded'>) => (excluded ? NOT : '') + filter.name;

export function wordsOf({ filter, value, excluded }: InForce): string {
  const words = excluded ? (filter.words.endsWith(' is') ? `${filter.words} not` : `not ${filter.words}`) : filter.words;
  return `${words} ${filter.show ? filter.show(value) : value}`;
}

/** The address without one of the values in force. */
export function without(each: InForce): string {
  const name = nameOf(each);
  return here({ [name]: place.value.query.getAll(name).filter((value) => value !== each.value), id: null });
}

/** Of what is excluded there may be several values; of what is wanted, another replaces the one before. */
export function withFilter(filter: Filter, value: string, excluded: boolean): string {
  const name = nameOf({ filter, excluded }), others = excluded ? place.value.query.getAll(name).filter((each) => each !== value) : [];
  return here({ [name]: [...others, value], id: null });
}

/** The filters as the API takes them, with the scope. Ids say where to look, whatever the time range. */
export function apiFilters(): Record<string, string | number | string[]> {
  const range = timeRange(), team = scopeTeam(), query: Record<string, string | number | string[]> = {};
  for (const each of filtersInForce()) {
    const name = nameOf(each), before = query[name];
    query[name] = Array.isArray(before) ? [...before, each.value] : each.excluded ? [each.value] : each.filter.name.startsWith('min_') ? Number(each.value) : each.value;
  }
  if (team) query['team'] = team;
  query['since'] = range.since;
  if (!range.open) query['until'] = range.until;
  return query;
}

/** Those in force that sums know, for the counts of the values of a filter. Sums know an end user or a tag, not both. */
export function summedFilters(): Record<string, string[]> {
  const query: Record<string, string[]> = {};
  for (const each of filtersInForce()) {
    const bySubject = (each.filter.name === 'end_user' || each.filter.name === 'tag') && !each.excluded && !query['end_user'] && !query['tag'];
    if (each.filter.counted || bySubject) (query[nameOf(each)] ??= []).push(each.value);
  }
  return query;
}

/** What a person typed, as the API takes it: seconds and dollars become millionths. */
export function typed(name: string, text: string): string {
  if (name !== 'min_duration_us' && name !== 'min_cost_microusd') return text.trim();
  const number = Number(text.replace(/[^0-9.]/g, ''));
  return Number.isFinite(number) ? String(Math.round(number * 1e6)) : '';
}
