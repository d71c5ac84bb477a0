/** Conversations among the newest requests: those that belong together by their episode. */
import { useState } from 'preact/hooks';
import { get } from '../../api';
import { ago, count, duration, money, plural } from '../../format';
import type { Inference } from '../../generated/api';
import { Head, When } from '../../parts/Head';
import { Empty, Loaded } from '../../parts/States';
import { Inline } from '../../parts/Text';
import { useResource } from '../../resource';
import { go, to } from '../../router';
import { scopeTeam, timeRange } from '../../scope';
import { session } from '../../session';

const READ = 200;

interface Conversation {
  id: string;
  name: string | null;
  team: string | null;
  teamId: string;
  model: string;
  variant: string | null;
  user: string | null;
  turns: number;
  failed: number;
  cost: number;
  durationUs: number;
  at: string;
}

export function ConversationList() {
  const range = timeRange(), team = scopeTeam(), [wanted, setWanted] = useState('');
  const found = useResource(`conversations|${session.value?.id}|${team}|${range.name ?? range.since + range.until}`, (signal) => get('GET /inferences', { query: { team, since: range.since, ...(range.name ? {} : { until: range.until }), limit: READ }, signal }));
  return (
    <>
      <Head title="Conversations" about={found.data && `among the newest ${plural(found.data.data.length, 'request')}`}>
        <form class="actions" onSubmit={(event) => { event.preventDefault(); if (wanted.trim()) go(to(`/conversations/${encodeURIComponent(wanted.trim())}`)); }}>
          <input class="input narrow" aria-label="Open a conversation by its id or name" placeholder="Its id, or your name for it" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
          <button class="button" disabled={!wanted.trim()}>Open</button>
        </form>
      </Head>
      <Loaded from={found} lines={10}>
        {(page) => {
          const rows = grouped(page.data as Inference[]);
          if (!rows.length) return <section class="panel"><Empty title="No conversation in this time"><p>Requests with the same <code>x-narthex-episode-id</code> are one conversation.</p></Empty></section>;
          return (
            <section class="panel flush">
              <div class="scroll" tabIndex={0} role="region" aria-label="Conversations">
                <table class="rows list cards still">
                  <thead><tr><th scope="col">Last</th><th scope="col">Conversation</th><th scope="col">Team</th><th scope="col">Of</th><th scope="col">End user</th><th scope="col" class="n">Turns</th><th scope="col" class="n">Failed</th><th scope="col" class="n">Cost</th><th scope="col" class="n">Latency of all</th></tr></thead>
                  <tbody>
                    {rows.map((each) => (
                      <tr key={each.id}>
                        <td><When at={each.at} words={ago(each.at)} /></td>
                        <th scope="row" class="full preview"><a class={each.name ? '' : 'mono'} href={to(`/conversations/${each.id}`, { team_id: each.teamId })}><Inline text={each.name ?? each.id} /></a></th>
                        <td>{each.team ?? '–'}</td>
                        <td><Inline text={each.model} />{each.variant && <span class="tag">{each.variant}</span>}</td>
                        <td class="preview">{each.user ? <Inline text={each.user} /> : <span class="dim">–</span>}</td>
                        <td class="n" data-name="turns">{count(each.turns)}</td>
                        <td class={`n${each.failed ? ' bad' : ''}`} data-name="failed">{count(each.failed)}</td>
                        <td class="n">{money(each.cost)}</td>
                        <td class="n wide-only">{duration(each.durationUs)}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              <p class="more"><span class="dim">What is counted here is of the newest {count(page.data.length)} requests. A conversation itself shows all of its turns.</span></p>
            </section>
          );
        }}
      </Loaded>
    </>
  );
}

function grouped(rows: Inference[]): Conversation[] {
  const found = new Map<string, Conversation>();
  for (const row of rows) {
    const key = `${row.team_id}/${row.episode_id}`;
    const known = found.get(key) ?? { id: row.episode_id, name: row.episode_name, team: row.team, teamId: row.team_id, model: row.function ?? row.model, variant: row.variant, user: row.end_user, turns: 0, failed: 0, cost: 0, durationUs: 0, at: row.received_at };
    known.turns++;
    known.failed += row.outcome === 'answered' ? 0 : 1;
    known.cost += row.cost_microusd ?? 0;
    known.durationUs += row.duration_us;
    found.set(key, known);
  }
  return [...found.values()];
}
