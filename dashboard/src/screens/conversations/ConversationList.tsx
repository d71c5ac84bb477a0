/** Conversations, those with the newest requests first. */
import { useState } from 'preact/hooks';
import { get } from '../../api';
import { ago, count, duration, money, percent } from '../../format';
import type { ListedEpisode } from '../../generated/api';
import { Head, When } from '../../parts/Head';
import { Empty, Loaded } from '../../parts/States';
import { Inline } from '../../parts/Text';
import { useResource } from '../../resource';
import { go, here, place, to } from '../../router';
import { scopeTeam, timeRange } from '../../scope';
import { session } from '../../session';

const PAGE = 50;
const NARROWED: [string, Record<string, string>][] = [['with a failure', { outcome: 'failed' }], ['5 turns and more', { min_inferences: '5' }], ['over $0.10', { min_cost_microusd: '100000' }]];
const NAMES = ['model', 'function', 'variant', 'experiment', 'end_user', 'outcome', 'min_inferences', 'min_cost_microusd'] as const;

export function ConversationList() {
  const range = timeRange(), team = scopeTeam(), query = place.value.query, [wanted, setWanted] = useState('');
  const filters: Record<string, string | number> = {};
  for (const name of NAMES) if (query.get(name)) filters[name] = name.startsWith('min_') ? Number(query.get(name)) : query.get(name)!;
  const asked = { ...filters, team, since: range.since, ...(range.open ? {} : { until: range.until }), limit: PAGE, preview: true };
  const key = `conversations|${session.value?.id}|${team}|${JSON.stringify(filters)}|${range.name ?? range.since + range.until}`;
  const found = useResource(key, (signal) => get('GET /episodes', { query: asked, signal }));
  const [older, setOlder] = useState<{ key: string; rows: ListedEpisode[]; next: string | null } | null>(null), more = older?.key === key ? older : null;
  return (
    <>
      <Head title="Conversations" about="Requests that belong together, the newest first">
        <form class="one-line" onSubmit={(event) => { event.preventDefault(); if (wanted.trim()) go(to(`/conversations/${encodeURIComponent(wanted.trim())}`)); }}>
          <input class="input narrow" aria-label="Open a conversation by its id or name" placeholder="Its id, or your name for it" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
          <button class="button" disabled={!wanted.trim()}>Open</button>
        </form>
      </Head>
      <div class="filters">
        <OfUser />
        {NAMES.filter((name) => query.get(name)).map((name) => <a key={name} class="chip on" href={here({ [name]: null })} aria-label={`Remove the filter ${name}`}>{name.replaceAll('_', ' ')} {query.get(name)} <span aria-hidden="true">✕</span></a>)}
        {NARROWED.filter(([, values]) => !Object.keys(values).some((name) => query.has(name))).map(([text, values]) => <a key={text} class="chip" href={here(values)}>{text}</a>)}
      </div>
      <Loaded from={found} lines={10}>
        {(page) => {
          const rows = [...page.data, ...(more?.rows ?? [])], next = more ? more.next : page.next;
          if (!rows.length) return <section class="panel"><Empty title="No conversation in this time"><p>Requests with the same <code>x-narthex-episode-id</code> are one conversation.</p></Empty></section>;
          return (
            <section class="panel flush">
              <div class="scroll" tabIndex={0} role="region" aria-label="Conversations">
                <table class="rows list cards still">
                  <thead><tr><th scope="col">Last</th><th scope="col">Conversation</th><th scope="col">Newest words</th><th scope="col">Team</th><th scope="col">Of</th><th scope="col" class="widest">End user</th><th scope="col" class="n">Turns</th><th scope="col" class="n">Failed</th><th scope="col" class="n">Cost</th><th scope="col" class="n">Lasted</th><th scope="col">Feedback</th></tr></thead>
                  <tbody>{rows.map((each) => <Row key={each.team_id + each.id} row={each} />)}</tbody>
                </table>
              </div>
              <p class="more">{next ? <button class="button" onClick={() => void get('GET /episodes', { query: { ...asked, before: next } }).then((newer) => setOlder({ key, rows: [...(more?.rows ?? []), ...newer.data], next: newer.next }))}>Older</button> : <span class="dim">These are all.</span>}</p>
            </section>
          );
        }}
      </Loaded>
    </>
  );
}

function OfUser() {
  const [user, setUser] = useState('');
  return (
    <form class="one-line" onSubmit={(event) => { event.preventDefault(); if (user.trim()) go(here({ end_user: user.trim() })); }}>
      <input class="input narrow" type="search" aria-label="Only of an end user" placeholder="End user" value={user} onInput={(event) => setUser(event.currentTarget.value)} />
    </form>
  );
}

function Row({ row }: { row: ListedEpisode }) {
  return (
    <tr>
      <td><When at={row.ended_at} words={ago(row.ended_at)} /></td>
      <th scope="row" class="name"><a class={row.name ? '' : 'mono'} href={to(`/conversations/${row.id}`, { team_id: row.team_id })}>{row.name ? <Inline text={row.name} /> : `${row.id.slice(0, 13)}…`}</a></th>
      <td class="full preview">{row.preview ? <Inline text={row.preview} /> : <span class="dim">not kept</span>}</td>
      <td>{row.team ?? <span class="dim">removed</span>}</td>
      <td class="preview"><Inline text={row.function ?? row.models.join(', ')} />{row.variant && <span class="tag">{row.variant}</span>}</td>
      <td class="widest preview">{row.end_user ? <Inline text={row.end_user} /> : <span class="dim">–</span>}</td>
      <td class="n" data-name="turns">{count(row.inferences)}{row.capped && '+'}</td>
      <td class={`n${row.failed ? ' bad' : ''}`} data-name="failed">{count(row.failed)}</td>
      <td class="n">{money(row.cost_microusd)}</td>
      <td class="n wide-only">{duration(row.duration_us)}</td>
      <td>{row.feedback.length ? row.feedback.map((each) => <span key={each.metric} class={`tag${each.value === 1 ? ' ok' : each.value === 0 ? ' warn' : ''}`}>{each.metric} {each.value === 1 ? 'yes' : each.value === 0 ? 'no' : each.value < 1 && each.value > 0 ? percent(each.value, 0) : Number(each.value.toPrecision(3))}</span>) : <span class="dim">–</span>}</td>
    </tr>
  );
}
