/** One team: what it may, its keys, and what it used. */
import { useState } from 'preact/hooks';
import { ask, column, series, total } from '../../analytics';
import { call, get } from '../../api';
import { Figure } from '../../charts/Figure';
import { Stack } from '../../charts/Stack';
import { compact, count, dayAndClock, money, moneyTick, moment, share, zone } from '../../format';
import { Head, When } from '../../parts/Head';
import { Fault, Skeleton } from '../../parts/States';
import { useResource } from '../../resource';
import { to } from '../../router';
import { timeRange } from '../../scope';
import { may } from '../../session';
import { limitWords } from './KeyView';
import { TeamForm } from './TeamForm';

export function TeamView({ name }: { name: string }) {
  const [editing, setEditing] = useState(false), range = timeRange(), question = { since: range.since, until: range.until, team: name };
  const found = useResource(`team|${name}`, (signal) => call('GET /teams/{name}', { path: { name }, signal }));
  const keys = useResource(`keys-of|${name}`, (signal) => get('GET /keys', { query: { team: name, limit: 100, state: 'valid' }, signal }));
  const use = useResource(`team-use|${name}|${range.name ?? range.since + range.until}|${zone()}`, async (signal) => {
    const [all, time, models] = await Promise.all([ask({ ...question, quantiles: true }, signal), ask({ ...question, interval: range.interval }, signal), ask({ ...question, group_by: 'model', order_by: 'cost_microusd', limit: 8 }, signal)]);
    return { range, all, time, models };
  });
  const team = found.data?.data;
  if (!team) return <><Head title={name} />{found.error ? <Fault error={found.error} retry={found.reload} /> : <section class="panel"><Skeleton /></section>}</>;
  const sum = use.data ? total(use.data.all) : null, course = use.data ? series(use.data.time, use.data.range) : null, costs = course ? column(course.rows[0]!, (row) => row.cost_microusd) : [];
  return (
    <>
      <Head title={team.name} about="team">
        <a class="button" href={to('/requests', { team: team.name })}>Its requests</a>
        {may('teams:write', team.name) && <button class="button" onClick={() => setEditing(true)}>Change …</button>}
        {may('keys:write', team.name) && <a class="button primary" href={to('/teams', { team: team.name, new: 'key' })}>New key</a>}
      </Head>
      {use.error && !use.data && <Fault error={use.error} retry={use.reload} />}
      <ul class="tiles four">
        <li class="panel tile plain"><span class="label">Requests</span><span class="value">{sum ? compact(sum.requests) : use.data ? '0' : '…'}</span><span class="under">{range.label.toLowerCase()}</span></li>
        <li class="panel tile plain"><span class="label">Cost</span><span class="value">{sum ? money(sum.cost_microusd) : use.data ? '$0' : '…'}</span><span class="under">{sum?.unpriced ? `${count(sum.unpriced)} unpriced` : 'every request is priced'}</span></li>
        <li class="panel tile plain"><span class="label">Failed</span><span class="value">{sum ? share(sum.failed, sum.requests) : '–'}</span><span class="under">{count(sum?.failed ?? 0)} requests</span></li>
        <li class="panel tile plain"><span class="label">Refused</span><span class="value">{compact(sum?.refused ?? 0)}</span><span class="under"><a class="link" href={to('/requests', { show: 'refused', team: team.name })}>why</a></span></li>
      </ul>
      {course && sum && sum.requests > 0 && (
        <Figure title="Cost" note={`${money(sum.cost_microusd)} in this time, mostly for ${use.data!.models.data.slice(0, 3).map((row) => row.group['model']).join(', ')}.`} numbers={{ head: ['Time', 'Cost'], rows: course.times.map((at, index) => [dayAndClock(at), money(costs[index])]) }}>
          {(width) => <Stack width={width} times={course.times} step={course.step} layers={[{ name: 'cost', colour: 'c1', values: costs }]} text={money} tick={moneyTick} label={`Cost over time, ${money(sum.cost_microusd)} in all`} />}
        </Figure>
      )}
      <div class="columns even">
        <section class="panel">
          <h2>What holds for it</h2>
          <dl class="facts">
            <dt>Created</dt><dd><When at={team.created_at} words={moment(team.created_at)} /></dd>
            <dt>Content kept</dt><dd>{team.content}</dd>
            <dt>Models</dt><dd>{team.models?.join(', ') ?? 'every model'}</dd>
            <dt>Routes</dt><dd>{team.routes?.join(', ') ?? 'every route'}</dd>
            <dt>Networks</dt><dd>{team.networks?.join(', ') ?? 'from anywhere'}</dd>
            <dt>Priority</dt><dd>{team.priority}</dd>
            {team.limits.map((each, index) => <><dt key={index}>Limit</dt><dd>{limitWords(each)}</dd></>)}
          </dl>
        </section>
        <section class="panel">
          <h2>Valid keys</h2>
          {!keys.data ? <Skeleton lines={4} /> : keys.data.data.length === 0 ? <p class="note">None: nobody can send requests as this team.</p> : (
            <ul class="log keys">{keys.data.data.map((each) => <li key={each.prefix}><a class="mono" href={to(`/keys/${each.prefix}`)}>{each.prefix}</a><span class="wrap">{each.name || 'no name'}{each.admin && <span class="tag warn">admin</span>}</span></li>)}</ul>
          )}
        </section>
      </div>
      {editing && <TeamForm team={team} etag={found.data!.etag} close={() => { setEditing(false); found.reload(); }} />}
    </>
  );
}
