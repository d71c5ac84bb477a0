/** One conversation as a line of turns over time, and what each turn added. */
import { get } from '../../api';
import { count, dayAndClock, duration, money, moment, plural } from '../../format';
import type { EpisodeTimeline, ShownMessage, TimelineInference } from '../../generated/api';
import { Head, When } from '../../parts/Head';
import { Fault, Skeleton } from '../../parts/States';
import { Status } from '../../parts/Status';
import { Inline, pretty, Text } from '../../parts/Text';
import { useResource } from '../../resource';
import { go, here, place } from '../../router';
import { useKeys } from '../../keys';
import { mayAnywhere } from '../../session';
import { Drawer } from '../requests/Drawer';

const SHOWN_CHARACTERS = 400;

export function ConversationView({ id }: { id: string }) {
  const query = place.value.query, teamId = query.get('team_id'), open = query.get('id');
  const found = useResource(`episode|${id}|${teamId}`, (signal) => get('GET /episodes/{id}/timeline', { path: { id }, query: { limit: 200, team_id: teamId, content: mayAnywhere('records:content') ? 'messages' : 'none', max_characters: SHOWN_CHARACTERS }, signal }));
  const episode = found.data, turns = episode?.inferences ?? [], index = turns.findIndex((each) => each.id === open);
  const show = (at: number) => { const turn = turns[at]; if (turn) go(here({ id: turn.id }), { replace: open !== null, keepScroll: true }); };
  const close = () => { go(here({ id: null, tab: null }), { keepScroll: true }); };
  useKeys((key) => {
    if (key === 'Escape' && open) { close(); return true; }
    if (key === 'j' || key === 'k') { show(Math.max(0, Math.min(turns.length - 1, index + (key === 'j' ? 1 : -1)))); return true; }
    return false;
  });
  if (!episode) return <><Head title="Conversation" />{found.error ? <Fault error={found.error} retry={found.reload} /> : <section class="panel"><Skeleton lines={10} /></section>}</>;
  return (
    <>
      <Head title={episode.name ?? 'Conversation'} about={<>{!episode.name && <span class="mono">{episode.id}</span>} {episode.team} · <When at={episode.began_at} words={dayAndClock(episode.began_at)} /></>} />
      <ul class="tiles four">
        <li class="panel tile plain"><span class="label">Turns</span><span class="value">{count(episode.totals.inferences)}</span><span class="under">{episode.totals.failed ? plural(episode.totals.failed, 'was not answered', 'were not answered') : 'all answered'}</span></li>
        <li class="panel tile plain"><span class="label">Cost</span><span class="value">{money(episode.totals.cost_microusd)}</span><span class="under">{episode.totals.unpriced ? `${count(episode.totals.unpriced)} unpriced` : 'all priced'}</span></li>
        <li class="panel tile plain"><span class="label">Tokens</span><span class="value">{count(episode.totals.input_tokens)}</span><span class="under">and {count(episode.totals.output_tokens)} output</span></li>
        <li class="panel tile plain"><span class="label">Waited for models</span><span class="value">{duration(episode.totals.duration_us)}</span><span class="under">in {duration((Date.parse(episode.ended_at) - Date.parse(episode.began_at)) * 1000)}</span></li>
      </ul>
      <Line episode={episode} open={open} />
      <section class="panel flush">
        <div class="scroll" tabIndex={0} role="region" aria-label="Turns">
          <table class="rows list cards">
            <thead><tr><th scope="col" class="n">Turn</th><th scope="col">Time</th><th scope="col">Status</th><th scope="col">Served by</th><th scope="col">What was said</th><th scope="col" class="n">Tokens</th><th scope="col" class="n">Cost</th><th scope="col" class="n">Latency</th></tr></thead>
            <tbody>{turns.map((each, at) => <Turn key={each.id} turn={each} number={at + 1} on={each.id === open} />)}</tbody>
          </table>
        </div>
        <p class="more"><span class="dim">{episode.next ? `The first ${count(turns.length)} turns. ` : ''}{episode.content_hidden && 'Your role does not show what was written. '}J and K go from turn to turn.</span></p>
      </section>
      {open && <Drawer id={open} newer={index > 0 ? () => show(index - 1) : null} older={index >= 0 && index < turns.length - 1 ? () => show(index + 1) : null} close={close} />}
    </>
  );
}

/** The turns where they were in time, each a link. */
function Line({ episode, open }: { episode: EpisodeTimeline; open: string | null }) {
  const end = Math.max(...episode.inferences.map((each) => each.offset_us + each.duration_us), 1);
  return (
    <section class="panel">
      <svg class="episode-line" viewBox="0 0 1000 26" preserveAspectRatio="none" role="img" aria-label={`${plural(episode.inferences.length, 'turn')} over ${duration(end)}`}>
        <rect class="track" y="10" width="1000" height="6" />
        {episode.inferences.map((each) => <a key={each.id} href={here({ id: each.id })} tabIndex={-1} aria-hidden="true"><rect class={each.id === open ? 'c2' : each.outcome === 'answered' ? 'c1' : 'c5'} x={Math.min(994, (1000 * each.offset_us) / end)} y="4" width={Math.max(6, (1000 * each.duration_us) / end)} height="18" /></a>)}
      </svg>
      <p class="note">{duration(end)} from the first request to the last response. Between the bars, the caller thought, called tools or waited for a person.</p>
    </section>
  );
}

/** The newest words of the user, and what was answered. */
function Said({ turn }: { turn: TimelineInference }) {
  if (!turn.messages) return turn.tool_calls?.length ? null : <span class="dim">not kept</span>;
  const { input, new_from, output } = turn.messages;
  const asked = input.slice(new_from).filter((each) => each.role === 'user').map(textOf).at(-1), answered = output.map(textOf)[0];
  return (
    <>
      {asked && <p><span class="sr">User: </span><Inline text={asked} /></p>}
      {answered && <p class="dim"><span class="sr">Answer: </span><Inline text={answered} /></p>}
    </>
  );
}

const textOf = (message: ShownMessage) => message.parts.flatMap((part) => (part.kind === 'text' ? [part.text] : [])).join(' ');

function Turn({ turn, number, on }: { turn: TimelineInference; number: number; on: boolean }) {
  const served = turn.attempts.find((each) => each.error === null);
  return (
    <tr class={on ? 'on' : ''} onClick={(event) => { if (!(event.target as Element).closest('a, summary') && !getSelection()?.toString()) go(here({ id: turn.id }), { keepScroll: true }); }}>
      <th scope="row" class="n"><a id={`row-${turn.id}`} href={here({ id: turn.id })}>{number}</a></th>
      <td class="mono"><When at={turn.received_at} words={moment(turn.received_at)} /></td>
      <td><Status status={turn.status} outcome={turn.outcome} /></td>
      <td class="full">{served ? <>{served.provider}/<Inline text={served.served_model} /></> : <span class="dim">nobody</span>}{turn.variant && <span class="tag">{turn.variant}</span>}{turn.attempts.length > 1 && <span class="tag warn">{turn.attempts.length} attempts</span>}</td>
      <td class="full said"><Said turn={turn} />{turn.tool_calls?.length ? <details><summary>{turn.tool_calls.map((each) => each.name).join(', ')}</summary>{turn.tool_calls.map((each) => <Text key={each.id} text={pretty(each.arguments)} code />)}</details> : null}</td>
      <td class="n wide-only">{count(turn.input_tokens)} + {count(turn.output_tokens)}</td>
      <td class="n">{money(turn.cost_microusd)}</td>
      <td class="n end">{duration(turn.duration_us)}</td>
    </tr>
  );
}
