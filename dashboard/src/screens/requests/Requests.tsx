/** The list of requests, or of those that were refused, with filters, live tail, and the drawer that says why. */
import { useEffect, useState } from 'preact/hooks';
import { apiAddress, get } from '../../api';
import { count, plural } from '../../format';
import type { Inference } from '../../generated/api';
import { useKeys } from '../../keys';
import { Head } from '../../parts/Head';
import { Empty, Fault, Skeleton, Stale } from '../../parts/States';
import { useResource } from '../../resource';
import { go, here, place } from '../../router';
import { scopeTeam, timeRange } from '../../scope';
import { session } from '../../session';
import { Drawer } from './Drawer';
import { FilterBar } from './FilterBar';
import { apiFilters, filtersInForce, nameOf, without, wordsOf } from './filters';
import { useTail } from './live';
import { Refusals } from './Refusals';
import { RequestTable } from './RequestTable';

const PAGE = 50;

export function Requests() {
  const refused = place.value.query.get('show') === 'refused';
  return refused ? <Refused /> : <Served />;
}

function Served() {
  const filters = apiFilters(), range = timeRange(), query = place.value.query;
  const stable = { ...filters, since: range.name ?? filters['since'] };
  const key = `requests|${session.value?.id}|${JSON.stringify(stable)}`;
  const [older, setOlder] = useState<{ key: string; rows: Inference[]; next: string | null } | null>(null);
  const [loadingMore, setLoadingMore] = useState(false);
  const page = useResource(key, (signal) => get('GET /inferences', { query: { ...filters, limit: PAGE, preview: true }, signal }));
  const tail = useTail(query.get('live') === '1', filters);
  const more = older?.key === key ? older : null;
  const rows = [...tail.rows.filter((row) => !page.data?.data.some((each) => each.id === row.id)), ...((page.data?.data ?? []) as Inference[]), ...(more?.rows ?? [])];
  const next = more ? more.next : (page.data?.next ?? null), id = query.get('id');
  const index = rows.findIndex((row) => row.id === id), [cursor, setCursor] = useState(-1);

  const loadOlder = async () => {
    if (!next || loadingMore) return;
    setLoadingMore(true);
    try {
      const found = await get('GET /inferences', { query: { ...filters, limit: PAGE, before: next, preview: true } });
      setOlder({ key, rows: [...(more?.rows ?? []), ...(found.data as Inference[])], next: found.next });
    } finally {
      setLoadingMore(false);
    }
  };
  // What is beside the open request, also where the list that is shown begins or ends, or does not have it.
  const isEdge = id !== null && filters['text'] === undefined && !page.loading && (index <= 0 || index === rows.length - 1);
  const near = useResource(isEdge ? `neighbours|${id}|${key}` : null, (signal) => get('GET /inferences/{id}/neighbours', { path: { id: id! }, query: filters, signal }));
  const beside = isEdge && !near.loading ? near.data : undefined;
  const newer = index > 0 ? rows[index - 1]!.id : (beside?.newer ?? null), previous = index >= 0 && index < rows.length - 1 ? rows[index + 1]!.id : (beside?.older ?? null);
  const open = (other: string) => go(here({ id: other }), { replace: id !== null, keepScroll: true });
  const close = () => {
    const before = id;
    go(here({ id: null, tab: null }), { keepScroll: true });
    requestAnimationFrame(() => document.getElementById(`row-${before}`)?.focus());
  };
  useEffect(() => setCursor(-1), [key]);
  useKeys((pressed) => {
    const step = pressed === 'j' || pressed === 'ArrowDown' ? 1 : pressed === 'k' || pressed === 'ArrowUp' ? -1 : 0;
    if (pressed.startsWith('Arrow') && id === null && cursor < 0) return false;
    if (step) {
      const from = id !== null ? index : cursor, at = Math.max(0, Math.min(rows.length - 1, from + step)), next = step > 0 ? previous : newer;
      if (id === null || index >= 0) setCursor(at);
      if (id !== null) { if (next) open(next); }
      else document.getElementById(`row-${rows[at]?.id}`)?.focus();
      if (at >= rows.length - 3) void loadOlder();
      return true;
    }
    if (pressed === 'Escape' && id !== null) { close(); return true; }
    if (pressed === 'l') { toggleLive(); return true; }
    return false;
  });
  const toggleLive = () => go(here({ live: query.get('live') === '1' ? null : '1' }), { replace: true });
  return (
    <>
      <Head title="Requests" about={<Total filtered={filtersInForce().length > 0} shown={rows.length} more={next !== null} />}>
        <Segments refused={false} />
        <button class="button" aria-pressed={query.get('live') === '1'} onClick={toggleLive}><i class="live" />Live</button>
        <a class="button" href={apiAddress('/inferences/export', {}, { ...filters, format: 'csv' })} download>Export</a>
      </Head>
      <FilterBar refused={false} />
      {tail.note && <p class="note" role="status">{tail.note}</p>}
      {page.error && page.data && <Stale error={page.error} retry={page.reload} />}
      {page.error && !page.data ? (
        <Fault error={page.error} retry={page.reload} />
      ) : !page.data ? (
        <section class="panel"><Skeleton lines={12} /></section>
      ) : rows.length === 0 ? (
        <Nothing />
      ) : (
        <section class={`panel flush${page.loading ? ' dimmed' : ''}`} aria-busy={page.loading}>
          <RequestTable rows={rows} open={id} choose={(row) => go(here({ id: row.id }), { keepScroll: true })} />
          <p class="more">
            {next ? <button class="button" disabled={loadingMore} onClick={() => void loadOlder()}>{loadingMore ? 'Loading …' : 'Older'}</button> : <span class="dim">These are all.</span>}
            <span class="dim">J and K move, Enter opens, L follows, / filters</span>
          </p>
        </section>
      )}
      {id !== null && <Drawer id={id} newer={newer ? () => open(newer) : null} older={previous ? () => open(previous) : null} close={close} />}
    </>
  );
}

function Refused() {
  const [shown, setShown] = useState(0);
  return (
    <>
      <Head title="Requests" about={shown > 0 ? `${count(shown)} refused requests, newest first` : 'refused before a model saw them'}>
        <Segments refused />
      </Head>
      <FilterBar refused />
      <Refusals count={setShown} />
    </>
  );
}

function Segments({ refused }: { refused: boolean }) {
  return (
    <nav class="segments" aria-label="Which requests">
      <a href={here({ show: null, id: null })} aria-current={refused ? undefined : 'true'}>Served</a>
      <a href={here({ show: 'refused', id: null, outcome: null, live: null })} aria-current={refused ? 'true' : undefined}>Refused</a>
    </nav>
  );
}

function Total({ filtered, shown, more }: { filtered: boolean; shown: number; more: boolean }) {
  const range = timeRange(), { text, ...filters } = apiFilters(), lasting = range.label.toLowerCase();
  const key = `total|${session.value?.id}|${JSON.stringify({ ...filters, since: range.name ?? range.since })}`;
  const found = useResource(text === undefined ? key : null, (signal) => get('GET /inferences/count', { query: filters, signal }));
  if (text !== undefined) return <>{shown === 0 ? '' : `${count(shown)}${more ? ' and more' : ''} match · newest first`}</>;
  if (!found.data) return <>newest first</>;
  const number = found.data.capped ? `${count(found.data.count)} requests and more` : plural(found.data.count, 'request');
  return <>{number} {filtered ? `${found.data.count === 1 ? 'matches' : 'match'}, ` : ''}{range.name?.match(/\d/) ? `in the ${lasting}` : lasting} · newest first</>;
}

function Nothing() {
  const filters = filtersInForce();
  return (
    <section class="panel">
      {filters.length ? (
        <Empty title="No request matches">
          <p>In this time no request has all of these. Remove one:</p>
          <div class="filters">{filters.map((each) => <a key={`${nameOf(each)} ${each.value}`} class="chip on" href={without(each)}>{wordsOf(each)} ✕</a>)}</div>
        </Empty>
      ) : (
        <Empty title="No request in this time">
          <p>Choose a longer time above{scopeTeam() ? ', or another team' : ''}.</p>
          {timeRange().name !== '90d' && <a class="button" href={here({ range: '90d', since: null, until: null })}>Last 90 days</a>}
        </Empty>
      )}
    </section>
  );
}
