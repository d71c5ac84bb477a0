/** The requests that were sent with the key that signed in, with the same drawer as for everybody. */
import { useState } from 'preact/hooks';
import { get } from '../../api';
import type { Inference } from '../../generated/api';
import { useKeys } from '../../keys';
import { Empty, Fault, Skeleton, Stale } from '../../parts/States';
import { useResource } from '../../resource';
import { go, here, place } from '../../router';
import { timeRange } from '../../scope';
import { session } from '../../session';
import { Drawer } from '../requests/Drawer';
import { RequestTable } from '../requests/RequestTable';

const PAGE = 25;

export function OwnRequests() {
  const range = timeRange(), key = `own-requests|${session.value?.id}|${range.name ?? range.since + range.until}`;
  const query = { since: range.since, ...(range.open ? {} : { until: range.until }), limit: PAGE, preview: true };
  const page = useResource(key, (signal) => get('GET /own/inferences', { query, signal }), 30);
  const [older, setOlder] = useState<{ key: string; rows: Inference[]; next: string | null } | null>(null), [loading, setLoading] = useState(false);
  const more = older?.key === key ? older : null, rows = [...((page.data?.data ?? []) as Inference[]), ...(more?.rows ?? [])];
  const next = more ? more.next : (page.data?.next ?? null), id = place.value.query.get('id'), index = rows.findIndex((row) => row.id === id);
  const open = (at: number) => { const row = rows[at]; if (row) go(here({ id: row.id }), { replace: id !== null, keepScroll: true }); };
  const close = () => {
    go(here({ id: null, tab: null }), { keepScroll: true });
    requestAnimationFrame(() => document.getElementById(`row-${id}`)?.focus());
  };
  useKeys((pressed) => {
    if (id === null) return false;
    if (pressed === 'Escape') { close(); return true; }
    const step = pressed === 'j' || pressed === 'ArrowDown' ? 1 : pressed === 'k' || pressed === 'ArrowUp' ? -1 : 0;
    if (step) open(Math.max(0, Math.min(rows.length - 1, index + step)));
    return step !== 0;
  });
  const loadOlder = async () => {
    if (!next) return;
    setLoading(true);
    try {
      const found = await get('GET /own/inferences', { query: { ...query, before: next } });
      setOlder({ key, rows: [...(more?.rows ?? []), ...(found.data as Inference[])], next: found.next });
    } finally {
      setLoading(false);
    }
  };
  return (
    <>
      {page.error && page.data && <Stale error={page.error} retry={page.reload} />}
      {page.error && !page.data ? <Fault error={page.error} retry={page.reload} /> : (
        <section class={`panel flush${page.loading && page.data ? ' dimmed' : ''}`} aria-busy={page.loading}>
          <div class="panel-head"><h2>Requests with your key</h2><p class="note">{range.label.toLowerCase()}, newest first</p></div>
          {!page.data ? <Skeleton lines={8} /> : rows.length === 0 ? <Empty title="No request in this time"><p class="note">Choose a longer time above, or try a model in the playground.</p></Empty> : (
            <>
              <RequestTable rows={rows} open={id} choose={(row) => go(here({ id: row.id }), { keepScroll: true })} />
              <p class="more">{next ? <button class="button" disabled={loading} onClick={() => void loadOlder()}>{loading ? 'Loading …' : 'Older'}</button> : <span class="dim">These are all.</span>}</p>
            </>
          )}
        </section>
      )}
      {id !== null && <Drawer id={id} newer={index > 0 ? () => open(index - 1) : null} older={index >= 0 && index < rows.length - 1 ? () => open(index + 1) : null} close={close} />}
    </>
  );
}
