/** All keys with what they spent in the time above, and the teams. */
import { useState } from 'preact/hooks';
import { get } from '../../api';
import { ago, compact, count, money, plural } from '../../format';
import type { Key, ListedKey, Team } from '../../generated/api';
import { Head, When } from '../../parts/Head';
import { Empty, Loaded } from '../../parts/States';
import { useResource } from '../../resource';
import { go, here, place, to } from '../../router';
import { scopeTeam, timeRange } from '../../scope';
import { mayAnywhere, may, session } from '../../session';
import { KeyForm } from './KeyForm';
import { TeamForm } from './TeamForm';

const PAGE = 50;
const STATES: [string | null, string][] = [['valid', 'Valid'], ['expired', 'Expired'], ['revoked', 'Revoked'], [null, 'All']];

export function KeyList() {
  const query = place.value.query, range = timeRange(), team = scopeTeam();
  const state = query.has('state') ? query.get('state') || null : 'valid', search = query.get('search') ?? '';
  const [round, setRound] = useState(0);
  const days = Math.max(1, Math.min(400, Math.round(range.seconds / 86_400))), unused = query.get('unused') === '1';
  const tab = query.get('tab') === 'teams' ? 'teams' : 'keys';
  const asked = { limit: PAGE, sort: '-created_at' as const, team, state: (state === 'all' ? null : state) as Key['state'] | null, search: search || null, usage_days: days, unused_since: unused ? new Date(Date.now() - 30 * 86_400_000).toISOString() : null };
  const key = `keys|${session.value?.id}|${team}|${state}|${search}|${days}|${unused}|${round}`;
  const keys = useResource(key, (signal) => get('GET /keys', { query: asked, signal }));
  const [older, setOlder] = useState<{ key: string; rows: ListedKey[]; next: string | null } | null>(null), more = older?.key === key ? older : null;
  const loadOlder = async (after: string | null) => {
    const found = await get('GET /keys', { query: { ...asked, after } });
    setOlder({ key, rows: [...(more?.rows ?? []), ...found.data], next: found.next });
  };
  const teams = useResource(`teams|${session.value?.id}|${round}`, (signal) => get('GET /teams', { query: { limit: 200, sort: 'name' }, signal }));
  const close = () => { go(here({ new: null }), { replace: true }); setRound(round + 1); };
  return (
    <>
      <Head title="Teams and keys">
        <nav class="segments" aria-label="What to see">
          <a href={here({ tab: null })} aria-current={tab === 'keys' ? 'true' : undefined}>Keys</a>
          <a href={here({ tab: 'teams' })} aria-current={tab === 'teams' ? 'true' : undefined}>Teams</a>
        </nav>
        {may('teams:write') && <a class="button" href={here({ new: 'team' })}>New team</a>}
        {mayAnywhere('keys:write') && <a class="button primary" href={here({ new: 'key' })}>New key</a>}
      </Head>
      {tab === 'keys' && <div class="filters">
        <nav class="segments" aria-label="Which keys">
          {STATES.map(([value, text]) => <a key={text} href={here({ state: value ?? 'all' })} aria-current={(state === 'all' ? null : state) === value ? 'true' : undefined}>{text}</a>)}
        </nav>
        <a class={`chip${unused ? ' on' : ''}`} href={here({ unused: unused ? null : '1' })}>unused for 30 days{unused && ' ✕'}</a>
        <input class="input narrow" type="search" aria-label="Search in names" placeholder="Search in names" value={search} onInput={(event) => go(here({ search: event.currentTarget.value }), { replace: true })} />
      </div>}
      {tab === 'keys' && <Loaded from={keys} lines={10}>
        {(page) =>
          page.data.length === 0 ? (
            <section class="panel"><Empty title={search || team ? 'No key matches' : 'There is no key'}>{mayAnywhere('keys:write') && <a class="button" href={here({ new: 'key' })}>New key</a>}</Empty></section>
          ) : (
            <section class="panel flush">
              <div class="scroll" tabIndex={0} role="region" aria-label="Keys">
                <table class="rows list cards">
                  <thead><tr><th scope="col">Key</th><th scope="col">Name</th><th scope="col">Team</th><th scope="col">State</th><th scope="col" class="n">Requests</th><th scope="col" class="n">Failed</th><th scope="col" class="n">Cost</th><th scope="col">Last used</th><th scope="col" class="widest">May</th><th scope="col">Expires</th></tr></thead>
                  <tbody>{[...page.data, ...(more?.rows ?? [])].map((each) => <KeyRow key={each.prefix} row={each} />)}</tbody>
                </table>
              </div>
              <p class="more">{(more ? more.next : page.next) && <button class="button" onClick={() => void loadOlder(more ? more.next : page.next)}>Older</button>}<span class="dim">Requests and cost are of the last {days === 1 ? '24 hours' : `${days} days`}.</span></p>
            </section>
          )
        }
      </Loaded>}
      {tab === 'teams' && <Loaded from={teams} lines={4}>{(page) => <TeamTable teams={page.data} />}</Loaded>}
      {query.get('new') === 'key' && mayAnywhere('keys:write') && <KeyForm teams={(teams.data?.data ?? []).map((each) => each.name)} close={close} />}
      {query.get('new') === 'team' && may('teams:write') && <TeamForm close={close} />}
    </>
  );
}

function KeyRow({ row }: { row: ListedKey }) {
  const use = row.usage;
  const restricted = [row.models && plural(row.models.length, 'model'), row.routes && plural(row.routes.length, 'route'), row.networks && plural(row.networks.length, 'network')].filter(Boolean);
  return (
    <tr>
      <th scope="row" class="mono"><a href={to(`/keys/${row.prefix}`)}>{row.prefix}</a></th>
      <td class="full preview">{row.name || <span class="dim">no name</span>}{row.admin && <span class="tag warn">admin</span>}</td>
      <td><a href={to(`/teams/${encodeURIComponent(row.team)}`)}>{row.team}</a></td>
      <td><span class={`tag${row.state === 'valid' ? ' ok' : row.state === 'revoked' ? ' bad' : ' warn'}`}>{row.state}</span></td>
      <td class="n" data-name="requests">{compact(use?.requests)}</td>
      <td class="n wide-only">{count(use?.failed)}</td>
      <td class="n">{money(use?.cost_microusd)}</td>
      <td data-name="last used">{use ? use.last_used_at ? <When at={use.last_used_at} words={Date.now() - Date.parse(use.last_used_at) < 3_600_000 ? 'this hour' : ago(use.last_used_at)} /> : <span class="warn">never</span> : '–'}</td>
      <td class="widest">{restricted.length ? restricted.join(', ') : <span class="dim">everything of its team</span>}</td>
      <td>{row.expires_at ? <When at={row.expires_at} words={ago(row.expires_at)} /> : <span class="dim">never</span>}</td>
    </tr>
  );
}

function TeamTable({ teams }: { teams: Team[] }) {
  if (!teams.length) return null;
  return (
    <section class="panel flush">
            <div class="scroll" tabIndex={0} role="region" aria-label="Teams">
        <table class="rows list cards">
          <thead><tr><th scope="col">Team</th><th scope="col" class="n">Keys</th><th scope="col">Content kept</th><th scope="col">May use</th><th scope="col">Limits of its own</th><th scope="col" class="n">Priority</th></tr></thead>
          <tbody>
            {teams.map((each) => (
              <tr key={each.id}>
                <th scope="row" class="full"><a href={to(`/teams/${encodeURIComponent(each.name)}`)}>{each.name}</a></th>
                <td class="n" data-name="keys">{count(each.keys)}</td>
                <td>{each.content}</td>
                <td>{each.models ? plural(each.models.length, 'model') : 'every model'}</td>
                <td>{each.limits.length ? plural(each.limits.length, 'limit') : <span class="dim">none</span>}</td>
                <td class="n" data-name="priority">{each.priority}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
