/** Refused requests: by which rule and for what reason, with their counts, and each with its sentence. */
import { useEffect, useState } from 'preact/hooks';
import { ask } from '../../analytics';
import { get } from '../../api';
import { ago, compact, moment, plural } from '../../format';
import type { Refusal } from '../../generated/api';
import { When } from '../../parts/Head';
import { Empty, Fault, Skeleton } from '../../parts/States';
import { Status } from '../../parts/Status';
import { Inline } from '../../parts/Text';
import { useResource } from '../../resource';
import { here, place, to } from '../../router';
import { scopeTeam, timeRange } from '../../scope';

const PAGE = 50, NAMES = ['key', 'model', 'status', 'error', 'route', 'request_id', 'rule'] as const;

export function Refusals({ count }: { count: (n: number) => void }) {
  const range = timeRange(), query = place.value.query;
  const filters: Record<string, string | null> = { team: scopeTeam() };
  for (const name of NAMES) filters[name] = query.get(name);
  const key = `refusals|${JSON.stringify(filters)}|${range.name ?? range.since + range.until}`;
  const page = useResource(key, (signal) => get('GET /refusals', { query: { ...filters, since: range.since, until: range.until, limit: PAGE }, signal }));
  const reasons = useResource(`reasons|${key}`, (signal) => ask({ since: range.since, until: range.until, team: scopeTeam(), outcome: 'refused', group_by: 'error,rule', order_by: 'refused', limit: 8 }, signal));
  const [older, setOlder] = useState<{ key: string; rows: Refusal[]; next: string | null } | null>(null);
  const more = older?.key === key ? older : null, rows = [...(page.data?.data ?? []), ...(more?.rows ?? [])], next = more ? more.next : (page.data?.next ?? null);
  const total = reasons.data?.data.reduce((sum, row) => sum + row.refused, 0) ?? 0;
  useEffect(() => count(total), [total]);
  if (page.error && !page.data) return <Fault error={page.error} retry={page.reload} />;
  if (!page.data) return <section class="panel"><Skeleton lines={10} /></section>;
  if (!rows.length) return <section class="panel"><Empty title="Nothing was refused">{total > 0 ? <p>{plural(total, 'refusal')} in this time have other filters.</p> : <p>In this time every request passed its limits, budgets and permissions.</p>}</Empty></section>;
  const loadOlder = async () => {
    const found = await get('GET /refusals', { query: { ...filters, since: range.since, until: range.until, limit: PAGE, after: next } });
    setOlder({ key, rows: [...(more?.rows ?? []), ...found.data], next: found.next });
  };
  return (
    <>
      {reasons.data && reasons.data.data.length > 0 && (
        <ul class="tiles four">
          {reasons.data.data.slice(0, 4).map((row) => (
            <li key={`${row.group['error']}-${row.group['rule']}`}>
              <a class="panel tile plain" href={here({ error: row.group['error'] ?? null, rule: row.group['rule'] || null })}>
                <span class="label">{words(row.group['error'])}</span>
                <span class="value">{compact(row.refused)}</span>
                <span class="under">{row.group['rule'] ? `by ${row.group['rule']}` : 'by no limit'}</span>
              </a>
            </li>
          ))}
        </ul>
      )}
      <section class="panel flush">
        <div class="scroll" tabIndex={0} role="region" aria-label="Refused requests">
          <table class="rows list cards">
            <thead><tr><th scope="col">Time</th><th scope="col">Status</th><th scope="col">Why</th><th scope="col">Passes</th><th scope="col">Team</th><th scope="col">Key</th><th scope="col">Model</th><th scope="col">Rule</th></tr></thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.id}>
                  <td class="mono"><When at={row.received_at} words={moment(row.received_at)} /></td>
                  <td><Status status={row.status} outcome="refused" /></td>
                  <td class="full why-cell">{row.message ? <Inline text={row.message} /> : words(row.error)}</td>
                  <td data-name="passes"><Passes row={row} /></td>
                  <td>{row.team ?? <span class="dim">unknown</span>}</td>
                  <td class="mono">{row.key ? <a href={to(`/keys/${row.key}`)}>{row.key}</a> : <span class="dim">{row.unknown_key ?? '–'}</span>}</td>
                  <td>{row.model ? <Inline text={row.model} /> : '–'}</td>
                  <td>{row.rule ? <a href={to('/limits', { tab: 'limits' })}>{row.rule}</a> : <span class="dim">–</span>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <p class="more">{next ? <button class="button" onClick={() => void loadOlder()}>Older</button> : <span class="dim">The numbers above count every refusal; of many alike at once, some are kept as rows.</span>}</p>
      </section>
    </>
  );
}

/** When the same request would pass, if no other came. */
function Passes({ row }: { row: Refusal }) {
  if (row.passes_at === null) return <span class="dim">{row.status === 429 ? 'not known' : 'not by waiting'}</span>;
  const about = row.passes_at_is_estimate ? 'about ' : '', isOver = Date.parse(row.passes_at) <= Date.now();
  return <When at={row.passes_at} words={isOver ? `since ${about}${moment(row.passes_at)}` : `${ago(row.passes_at)}${about && ', about'}`} />;
}

/** CamelCase names of errors as words. */
function words(error: string | null | undefined): string {
  if (!error) return 'refused';
  const text = error.replace(/([a-z])([A-Z])/g, '$1 $2').replaceAll('_', ' ').toLowerCase();
  return text.charAt(0).toUpperCase() + text.slice(1);
}

