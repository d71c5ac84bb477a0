/** One replay: what may be concluded, each metric of both, what it cost, and each pair with what both said. */
import { useState } from 'preact/hooks';
import { call, get } from '../../api';
import { ago, count, dollars, moment, percent, plural, share } from '../../format';
import type { Replay, ReplayResults } from '../../generated/api';
import { Confirm } from '../../parts/Dialog';
import { Head, When } from '../../parts/Head';
import { Fault, Loaded, Skeleton } from '../../parts/States';
import { Inline } from '../../parts/Text';
import { toast } from '../../parts/Toast';
import { forgetAll, useResource } from '../../resource';
import { go, to } from '../../router';
import { may } from '../../session';
import { filterWords, itemsOf, toneOf } from './Replays';
import { ReplayItems } from './ReplayItems';
import { inUnitOf } from './units';

type Act = 'cancel' | 'resume' | 'delete';
const EVERY_S = 10;

export function ReplayView({ id }: { id: string }) {
  const [act, setAct] = useState<Act | null>(null), path = { id };
  const found = useResource(`replay|${id}`, async (signal) => {
    const [replay, results] = await Promise.all([get('GET /replays/{id}', { path, signal }), get('GET /replays/{id}/results', { path, signal })]);
    return { replay, results };
  }, EVERY_S);
  if (!found.data) return <><Head title="Replay" />{found.error ? <Fault error={found.error} retry={found.reload} /> : <section class="panel"><Skeleton /></section>}</>;
  const { replay, results } = found.data, mayAct = may('keys:write', replay.team), open = replay.status === 'cancelled' || replay.status === 'failed';
  return (
    <>
      <Head title={`Replay with ${replay.definition.model}`} tags={<>{replay.definition.variant && <span class="tag">{replay.definition.variant}</span>}<span class={`tag ${toneOf(replay)}`}>{replay.status}</span></>} about={<>started <When at={replay.created_at} words={ago(replay.created_at)} /> by {replay.created_by}</>}>
        {mayAct && replay.status === 'running' && <button class="button" onClick={() => setAct('cancel')}>Cancel …</button>}
        {mayAct && open && <button class="button" onClick={() => setAct('resume')}>Go on …</button>}
        {mayAct && replay.status !== 'running' && <button class="button danger" onClick={() => setAct('delete')}>Delete …</button>}
      </Head>
      {replay.reason && <p class="banner">{replay.reason}</p>}
      <Verdict replay={replay} results={results} />
      <Metrics results={results} />
      <div class="columns even"><Order replay={replay} /><Progress replay={replay} /></div>
      <ReplayItems replay={replay} />
      {act && (
        <Confirm
          title={{ cancel: 'Cancel the replay', resume: 'Go on with the replay', delete: 'Delete the replay' }[act]}
          act={{ cancel: 'Cancel it', resume: 'Go on', delete: 'Delete' }[act]}
          danger={act !== 'resume'}
          close={() => setAct(null)}
          run={async () => {
            if (act === 'cancel') await call('POST /replays/{id}/cancel', { path });
            else if (act === 'resume') await call('POST /replays/{id}/resume', { path });
            else await call('DELETE /replays/{id}', { path });
            forgetAll();
            toast({ cancel: 'No further request is begun', resume: 'The replay goes on', delete: 'The replay is deleted' }[act]);
            if (act === 'delete') go(to('/replays'));
            else found.reload();
          }}
        >
          <p>{{ cancel: 'What is in progress goes on to its end, and counts.', resume: 'It goes on where it ended, at the cost of its key.', delete: 'Its results are deleted; the requests that it made stay.' }[act]}</p>
        </Confirm>
      )}
    </>
  );
}

function Verdict({ replay, results }: { replay: Replay; results: ReplayResults }) {
  const { match, judge } = results, worse = results.metrics.some((each) => each.verdict === 'worse'), better = results.metrics.some((each) => each.verdict === 'better');
  return (
    <section class={`panel verdict${worse ? ' harm' : better ? ' good' : ''}`} aria-label="What may be concluded">
      <div>
        <p class="dim">What may be concluded</p>
        <h2>{results.summary}</h2>
        <p class="note">Of {plural(results.pairs, 'pair')} in {plural(results.units, 'conversation')}. Each interval holds with {percent(results.confidence, 1)}, however often you look; all together with 95 %.</p>
      </div>
      <ul class="checks">
        <li class={replay.status === 'complete' ? '' : 'open'}><b>Pairs</b><span>{count(replay.items['done'] ?? 0)} of {count(itemsOf(replay))} done</span></li>
        <li class={match.compared && match.same === match.compared ? '' : 'open'}><b>Say the same</b><span>{match.compared ? `${count(match.same)} of ${count(match.compared)}${match.interval ? `, between ${percent(match.interval.low, 0)} and ${percent(match.interval.high, 0)} of conversations` : ''}` : 'nothing is compared yet'}</span></li>
        {judge && <li class={judge.verdict === 'worse' ? 'harm' : judge.verdict === 'better' ? '' : 'open'}><b>The judge</b><span>{judge.score === null ? 'has judged nothing yet' : `${count(judge.wins)} for the replay, ${count(judge.losses)} against, ${count(judge.ties)} even: ${judge.verdict}`}{judge.failed > 0 && `; ${count(judge.failed)} failed`}</span></li>}
      </ul>
    </section>
  );
}

function Metrics({ results }: { results: ReplayResults }) {
  if (!results.metrics.length) return null;
  return (
    <section class="panel flush">
      <div class="panel-head"><h2>Both compared</h2><p class="note">below zero is better: the replay took less of it</p></div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Both compared">
        <table class="rows list cards still">
          <thead><tr><th scope="col">Metric</th><th scope="col" class="n">Original</th><th scope="col" class="n">Replayed</th><th scope="col" class="n">Difference</th><th scope="col" class="n">Between</th><th scope="col">Verdict</th></tr></thead>
          <tbody>{results.metrics.map((each) => {
            const text = (value: number | null | undefined, sign = false) => inUnitOf(each.metric, each.units ? value : null, sign);
            return (
              <tr key={each.metric}>
                <th scope="row" class="full">{each.metric.replaceAll('_', ' ')}</th>
                <td class="n" data-name="original">{text(each.original)}</td>
                <td class="n" data-name="replayed">{text(each.replayed)}</td>
                <td class="n" data-name="difference">{text(each.difference, true)}</td>
                <td class="n" data-name="between">{each.interval ? `${text(each.interval.low, true)} and ${text(each.interval.high, true)}` : <span class="dim">{each.reason ?? '–'}</span>}</td>
                <td class="end"><span class={`tag ${each.verdict === 'better' ? 'ok' : each.verdict === 'worse' ? 'bad' : ''}`}>{each.verdict}</span></td>
              </tr>
            );
          })}</tbody>
        </table>
      </div>
    </section>
  );
}

function Order({ replay }: { replay: Replay }) {
  const order = replay.definition;
  return (
    <section class="panel">
      <h2>What was ordered</h2>
      <dl class="facts">
        <dt>Which requests</dt><dd>{filterWords(replay)}</dd>
        <dt>Answered by</dt><dd><Inline text={order.model} />{order.variant && ` · ${order.variant}`}</dd>
        <dt>Sample</dt><dd>{percent(order.sample, 0)}, at most {count(order.max_items)}</dd>
        <dt>Paid by</dt><dd><a class="link mono" href={to(`/keys/nx-${order.key.replace(/^nx-/, '')}`)}>nx-{order.key.replace(/^nx-/, '')}</a>{order.max_usd !== null && `, at most ${dollars(order.max_usd)}`}</dd>
        {order.judge && <><dt>Judged by</dt><dd>{order.judge.function}{order.judge.variant && ` · ${order.judge.variant}`}</dd></>}
      </dl>
    </section>
  );
}

function Progress({ replay }: { replay: Replay }) {
  const all = itemsOf(replay);
  return (
    <Loaded from={{ data: replay, error: undefined, loading: false, reload: () => undefined, set: () => undefined }}>
      {() => (
        <section class="panel">
          <h2>How far it is</h2>
          <dl class="facts">
            {(['done', 'running', 'pending', 'refused'] as const).map((each) => <><dt>{each}</dt><dd>{count(replay.items[each] ?? 0)} <span class="dim">{share(replay.items[each] ?? 0, all, 0)}</span></dd></>)}
            {Object.entries(replay.refused).map(([reason, number]) => <><dt>not replayed</dt><dd>{count(number)}: {reason.replaceAll('_', ' ')}</dd></>)}
            <dt>Spent</dt><dd>{dollars(replay.spent_usd)}{replay.reserved_usd > 0 && `, ${dollars(replay.reserved_usd)} held`}</dd>
            {replay.ended_at && <><dt>Ended</dt><dd><When at={replay.ended_at} words={moment(replay.ended_at)} /></dd></>}
          </dl>
        </section>
      )}
    </Loaded>
  );
}
