/** The chips above the list: what is in force, what is often wanted, and a way to add any other. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { get } from '../../api';
import { compact } from '../../format';
import { go, here, place } from '../../router';
import { useResource } from '../../resource';
import { scopeTeam, timeRange } from '../../scope';
import { FILTERS, filtersInForce, nameOf, summedFilters, typed, withFilter, without, wordsOf } from './filters';
import type { Filter } from './filters';

const QUICK: [string, Record<string, string>][] = [
  ['failed', { outcome: 'failed' }],
  ['slower than 3 s', { min_duration_us: '3000000' }],
  ['over $0.01', { min_cost_microusd: '10000' }],
];

export function FilterBar({ refused }: { refused: boolean }) {
  const [adding, setAdding] = useState(false);
  const inForce = filtersInForce();
  return (
    <div class="filters">
      <button id="add-filter" class="chip" aria-expanded={adding} onClick={() => setAdding(!adding)}>+ Filter</button>
      {inForce.map((each) => (
        <a key={`${nameOf(each)} ${each.value}`} class={`chip on${each.excluded ? ' excludes' : ''}`} href={without(each)} aria-label={`Remove the filter ${wordsOf(each)}`}>
          <span>{wordsOf(each)}</span> <span aria-hidden="true">✕</span>
        </a>
      ))}
      {!refused && QUICK.filter(([, values]) => !Object.keys(values).some((name) => place.value.query.has(name))).map(([text, values]) => <a key={text} class="chip" href={here({ ...values, id: null })}>{text}</a>)}
      {inForce.length > 1 && <a class="chip" href={here(Object.fromEntries([...inForce.map((each) => [nameOf(each), null]), ['id', null]]))}>Remove all</a>}
      {adding && <AddFilter refused={refused} close={() => setAdding(false)} />}
    </div>
  );
}

const OF_REFUSALS = ['key', 'model', 'status', 'error', 'route', 'request_id'];

function AddFilter({ refused, close }: { refused: boolean; close: () => void }) {
  const usable = refused ? FILTERS.filter((each) => OF_REFUSALS.includes(each.name)) : FILTERS;
  const [name, setName] = useState(usable[0]!.name), [text, setText] = useState(''), [excluding, setExcluding] = useState(false);
  const select = useRef<HTMLSelectElement>(null);
  const filter = usable.find((each) => each.name === name)!;
  const excluded = excluding && filter.excludes === true && !refused;
  useEffect(() => select.current?.focus(), []);
  const add = (value: string) => {
    close();
    if (value) go(withFilter(filter, value, excluded));
    document.getElementById('add-filter')?.focus();
  };
  return (
    <form class="actions" onSubmit={(event) => { event.preventDefault(); add(typed(name, text)); }} onKeyDown={(event) => { if (event.key === 'Escape') { event.preventDefault(); close(); document.getElementById('add-filter')?.focus(); } }}>
      <label>
        <span class="sr">Filter by</span>
        <select ref={select} value={name} onChange={(event) => { setName(event.currentTarget.value); setText(''); }}>
          {usable.map((each) => <option key={each.name} value={each.name}>{each.words}</option>)}
        </select>
      </label>
      {filter.excludes && !refused && (
        <label>
          <span class="sr">Which</span>
          <select value={excluded ? 'not' : ''} onChange={(event) => setExcluding(event.currentTarget.value === 'not')}>
            <option value="">only</option>
            <option value="not">everything but</option>
          </select>
        </label>
      )}
      {filter.counted && !refused ? (
        <Values filter={filter} choose={add} />
      ) : (
        <>
          <input class="input" aria-label={`${filter.words} …`} placeholder={filter.hint ?? ''} value={text} onInput={(event) => setText(event.currentTarget.value)} size={24} />
          <button class="button" disabled={!text.trim()}>Add</button>
        </>
      )}
    </form>
  );
}

/** The values that requests of this time have, with their counts among what the other filters let through. */
function Values({ filter, choose }: { filter: Filter; choose: (value: string) => void }) {
  const range = timeRange(), team = scopeTeam(), others = summedFilters();
  const key = `values|${filter.name}|${team}|${range.name ?? range.since + range.until}|${JSON.stringify(others)}`;
  const found = useResource(key, (signal) => get('GET /inferences/facets', { query: { ...others, since: range.since, until: range.until, team, of: filter.name, limit: 100 }, signal }));
  const rows = (found.data?.data[filter.name] ?? []).filter((each) => each.value);
  return (
    <label>
      <span class="sr">{filter.words}</span>
      <select value="" onChange={(event) => choose(event.currentTarget.value)}>
        <option value="">{found.error ? 'could not be loaded' : found.loading ? 'loading …' : rows.length ? 'choose …' : 'none in this time'}</option>
        {rows.map((each) => <option key={each.value} value={each.value!}>{each.value} · {compact(each.requests)}</option>)}
      </select>
    </label>
  );
}
