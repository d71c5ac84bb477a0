/** Who changed what, from where; and the history of the configuration, of which any version can be restored. */
import { useState } from 'preact/hooks';
import { apiAddress, call, get } from '../../api';
import { count, moment, plural } from '../../format';
import type { DryRun, RecordedEvent, VersionRow } from '../../generated/api';
import { Confirm } from '../../parts/Dialog';
import { Diff } from '../../parts/Diff';
import { Head, When } from '../../parts/Head';
import { Empty, Fault, Loaded, Skeleton } from '../../parts/States';
import { toast } from '../../parts/Toast';
import { useResource } from '../../resource';
import { go, here, place, to } from '../../router';
import { scopeTeam, timeRange } from '../../scope';
import { may, mayAnywhere, session } from '../../session';

export function Audit() {
  const chosen = place.value.query.get('tab'), tab = chosen ?? (mayAnywhere('audit:read') ? 'events' : 'versions');
  return (
    <>
      <Head title="Audit and history">
        <nav class="segments" aria-label="What to see">
          {mayAnywhere('audit:read') && <a href={here({ tab: 'events' })} aria-current={tab === 'events' ? 'true' : undefined}>Who did what</a>}
          {may('config:read') && <a href={here({ tab: 'versions' })} aria-current={tab === 'versions' ? 'true' : undefined}>Configuration</a>}
        </nav>
        {tab === 'events' && mayAnywhere('audit:read') && <a class="button" href={apiAddress('/audit/export', {}, { format: 'csv', since: timeRange().since, team: scopeTeam() })} download>Export</a>}
      </Head>
      {tab === 'events' ? <Events /> : <Versions />}
    </>
  );
}

function Events() {
  const query = place.value.query, range = timeRange(), team = scopeTeam(), search = query.get('search') ?? '', name = query.get('name');
  const filters = { team, since: range.since, until: range.open ? null : range.until, search: search || null, name, limit: 100 };
  const key = `audit|${session.value?.id}|${team}|${search}|${name}|${range.name ?? range.since + range.until}`;
  const found = useResource(key, (signal) => get('GET /audit', { query: filters, signal }));
  const [older, setOlder] = useState<{ key: string; rows: RecordedEvent[]; next: string | null } | null>(null), more = older?.key === key ? older : null;
  return (
    <>
      <div class="filters">
        <input class="input narrow" type="search" aria-label="Search" placeholder="Who, what, or a name" value={search} onInput={(event) => go(here({ search: event.currentTarget.value }), { replace: true })} />
        {name && <a class="chip on" href={here({ name: null })}>about {name} ✕</a>}
      </div>
      <Loaded from={found} lines={10}>
        {(page) => {
          const rows = [...page.data, ...(more?.rows ?? [])], next = more ? more.next : page.next;
          if (!rows.length) return <section class="panel"><Empty title="Nothing was changed">{<p>In this time{search || name ? ' and with this search' : ''} nobody changed anything.</p>}</Empty></section>;
          return (
            <section class="panel flush">
              <div class="scroll" tabIndex={0} role="region" aria-label="Events">
                <table class="rows list cards still"><thead><tr><th scope="col">Time</th><th scope="col">Who</th><th scope="col">Did</th><th scope="col">What</th><th scope="col">Team</th><th scope="col">From</th><th scope="col">Change</th></tr></thead><tbody>{rows.map((each) => <EventRow key={each.id} event={each} />)}</tbody></table>
              </div>
              <p class="more">{next ? <button class="button" onClick={() => void get('GET /audit', { query: { ...filters, after: next } }).then((newer) => setOlder({ key, rows: [...(more?.rows ?? []), ...newer.data], next: newer.next }))}>Older</button> : <span class="dim">These are all.</span>}</p>
            </section>
          );
        }}
      </Loaded>
    </>
  );
}

function EventRow({ event }: { event: RecordedEvent }) {
  const [open, setOpen] = useState(false), hasChange = event.before !== null || event.after !== null;
  return (
    <>
      <tr>
        <td class="mono"><When at={event.at} words={moment(event.at)} /></td>
        <td class="preview">{event.actor.name} <span class="dim">{event.actor.kind.replace('_', ' ')}</span></td>
        <td>{event.action.replaceAll('_', ' ')}</td>
        <td class="preview full"><span class="dim">{event.resource.replaceAll('_', ' ')}</span> {event.name}</td>
        <td>{event.team ?? <span class="dim">–</span>}</td>
        <td>{event.ip ?? <span class="dim">{event.via}</span>}</td>
        <td>{hasChange && <button class="button small" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? 'Hide' : 'Show'}</button>} {event.version !== null && <a class="link" href={to('/audit', { tab: 'versions', version: event.version })}>version {event.version}</a>}</td>
      </tr>
      {open && <tr class="aside"><td colSpan={7} class="full"><Diff before={event.before} after={event.after} /></td></tr>}
    </>
  );
}

function Versions() {
  const open = place.value.query.get('version'), [restoring, setRestoring] = useState<VersionRow | null>(null), [round, setRound] = useState(0);
  const found = useResource(`versions|${round}`, (signal) => get('GET /configuration/versions', { query: { limit: 100, sort: '-version' }, signal }));
  return (
    <>
      <Loaded from={found} lines={10}>
        {(page) => (page.data.length === 0 ? <section class="panel"><Empty title="The configuration was never changed" /></section> : (
          <section class="panel flush">
            <div class="scroll" tabIndex={0} role="region" aria-label="Versions">
              <table class="rows list cards still">
                <thead><tr><th scope="col">Version</th><th scope="col">Time</th><th scope="col">Who</th><th scope="col">Changed</th><th scope="col">By</th><th scope="col"><span class="sr">Acts</span></th></tr></thead>
                <tbody>
                  {page.data.map((each, index) => (
                    <>
                      <tr key={each.version} class={open === String(each.version) ? 'on' : ''}>
                        <th scope="row">{each.version}{index === 0 && <span class="tag ok">newest</span>}</th>
                        <td class="mono"><When at={each.at} words={moment(each.at)} /></td>
                        <td>{each.author}</td>
                        <td class="full preview">{each.restores !== null && <span class="tag">restores {each.restores}</span>} {Object.entries(each.changed).map(([section, changes]) => `${section} ${count(changes)}`).join(', ')}</td>
                        <td>{each.via}</td>
                        <td class="n"><a class="button small" href={here({ version: open === String(each.version) ? null : each.version })}>{open === String(each.version) ? 'Hide' : 'Show'}</a> {may('config:write') && index > 0 && <button class="button small" onClick={() => setRestoring(each)}>Restore …</button>}</td>
                      </tr>
                      {open === String(each.version) && <tr class="aside"><td colSpan={6} class="full"><VersionDiff version={each.version} /></td></tr>}
                    </>
                  ))}
                </tbody>
              </table>
            </div>
          </section>
        ))}
      </Loaded>
      {restoring && <Restore row={restoring} close={() => setRestoring(null)} changed={() => setRound(round + 1)} />}
    </>
  );
}

function VersionDiff({ version }: { version: number }) {
  const found = useResource(`version|${version}`, (signal) => get('GET /configuration/versions/{version}', { path: { version: String(version) }, query: { limit: 50 }, signal }));
  return <Loaded from={found} lines={4}>{(data) => <div class="rows-of">{data.data.map((each) => <div key={each.section + each.name}><h2>{each.section} {each.name}</h2><Diff before={each.before} after={each.after} /></div>)}{data.next && <p class="note">The first 50 changes.</p>}</div>}</Loaded>;
}

function Restore({ row, close, changed }: { row: VersionRow; close: () => void; changed: () => void }) {
  const path = { version: String(row.version) };
  const preview = useResource(`restore|${row.version}`, async (signal) => (await call('POST /configuration/versions/{version}/restore', { path, query: { dry_run: true }, signal })).data as DryRun);
  return (
    <Confirm title={`Restore version ${row.version}`} act="Restore" close={close} disabled={!preview.data} run={async () => { await call('POST /configuration/versions/{version}/restore', { path }); toast(`The configuration is as in version ${row.version}`); changed(); }}>
      <p>The configuration becomes what it was after this version. It is a version of its own, so that this can be undone, too.</p>
      {preview.error ? <Fault error={preview.error} /> : !preview.data ? <Skeleton lines={4} /> : <><p class="strong">{plural(preview.data.changes.length, 'change')}</p>{preview.data.changes.slice(0, 10).map((each) => <div key={each.resource + each.name}><h3>{each.resource} {each.name}</h3><Diff before={each.before} after={each.after} /></div>)}</>}
    </Confirm>
  );
}
