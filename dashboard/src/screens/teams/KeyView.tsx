/** One key: whose, what it may, what it used; rotate and revoke. */
import { useState } from 'preact/hooks';
import { ask, column, series, total } from '../../analytics';
import { call, get } from '../../api';
import { Figure } from '../../charts/Figure';
import { Stack } from '../../charts/Stack';
import { ago, compact, count, dayAndClock, money, moneyTick, moment, share, zone } from '../../format';
import type { CreatedKey, Key, Limit } from '../../generated/api';
import { Confirm } from '../../parts/Dialog';
import { Choice } from '../../parts/Field';
import { Head, When } from '../../parts/Head';
import { Fault, Skeleton } from '../../parts/States';
import { toast } from '../../parts/Toast';
import { useResource } from '../../resource';
import { to } from '../../router';
import { timeRange } from '../../scope';
import { may } from '../../session';
import { ShownKey } from './KeyForm';

export function KeyView({ prefix }: { prefix: string }) {
  const [act, setAct] = useState<'rotate' | 'revoke' | null>(null), [created, setCreated] = useState<CreatedKey | null>(null);
  const found = useResource(`key|${prefix}`, (signal) => get('GET /keys/{prefix}', { path: { prefix }, signal }));
  const key = found.data;
  if (!key) return <><Head title={prefix} />{found.error ? <Fault error={found.error} retry={found.reload} /> : <section class="panel"><Skeleton /></section>}</>;
  const mayWrite = may(key.admin ? 'admin_keys:write' : 'keys:write', key.team);
  return (
    <>
      <Head title={key.name || key.prefix} tags={<><span class={`tag${key.state === 'valid' ? ' ok' : ' bad'}`}>{key.state}</span>{key.admin && <span class="tag warn">admin</span>}</>} about={<span class="mono">{key.prefix}</span>}>
        <a class="button" href={to('/requests', { key: key.prefix })}>Its requests</a>
        {mayWrite && key.state === 'valid' && <button class="button" onClick={() => setAct('rotate')}>Rotate …</button>}
        {mayWrite && key.state !== 'revoked' && <button class="button danger" onClick={() => setAct('revoke')}>Revoke …</button>}
      </Head>
      <Use of={key} />
      <div class="columns even">
        <section class="panel">
          <h2>The key</h2>
          <dl class="facts">
            <dt>Team</dt><dd><a class="link" href={to(`/teams/${encodeURIComponent(key.team)}`)}>{key.team}</a></dd>
            <dt>Created</dt><dd><When at={key.created_at} words={moment(key.created_at)} /></dd>
            <dt>Expires</dt><dd>{key.expires_at ? <When at={key.expires_at} words={`${moment(key.expires_at)}, ${ago(key.expires_at)}`} /> : 'never'}</dd>
            {key.revoked_at && <><dt>Revoked</dt><dd><When at={key.revoked_at} words={moment(key.revoked_at)} /></dd></>}
            {key.replaced_by && <><dt>Replaced by</dt><dd><a class="link mono" href={to(`/keys/nx-${key.replaced_by.replace(/^nx-/, '')}`)}>{key.replaced_by}</a></dd></>}
            <dt>Models</dt><dd>{key.models?.join(', ') ?? 'every model of its team'}</dd>
            <dt>Routes</dt><dd>{key.routes?.join(', ') ?? 'every route'}</dd>
            <dt>Networks</dt><dd>{key.networks?.join(', ') ?? 'from anywhere'}</dd>
            <dt>Priority</dt><dd>{key.priority ?? "its team's"}</dd>
          </dl>
        </section>
        <section class="panel">
          <h2>Limits of its own</h2>
          {key.limits.length ? <dl class="facts">{key.limits.map((each) => <><dt>{each.name}</dt><dd>{limitWords(each)}</dd></>)}</dl> : <p class="note">None. Those of its team, and for everybody, hold: see <a href={to('/limits')}>limits and budgets</a>.</p>}
        </section>
      </div>
      {act === 'rotate' && <Rotate of={key} close={() => setAct(null)} created={setCreated} />}
      {act === 'revoke' && (
        <Confirm title={`Revoke ${key.prefix}`} act="Revoke" danger type={key.prefix} close={() => setAct(null)} run={async () => { found.set((await call('DELETE /keys/{prefix}', { path: { prefix } })).data as Key); toast('The key is revoked'); }}>
          <p>Whoever uses it is refused from the next request on. This cannot be undone.</p>
        </Confirm>
      )}
      {created && <ShownKey created={created} close={() => { setCreated(null); found.reload(); }} />}
    </>
  );
}

export function limitWords(limit: Pick<Limit, 'resource' | 'amount' | 'per'>): string {
  const per = limit.per ? ` a ${limit.per}` : '';
  return limit.resource === 'cost_usd' ? `$${count(limit.amount)}${per}` : limit.resource === 'concurrency' ? `${count(limit.amount)} at once` : `${compact(limit.amount)} ${limit.resource.replace('_', ' ')}${per}`;
}

function Rotate({ of, close, created }: { of: Key; close: () => void; created: (key: CreatedKey) => void }) {
  const [overlap, setOverlap] = useState('86400');
  return (
    <Confirm title={`Rotate ${of.prefix}`} act="Rotate" close={close} run={async () => created((await call('POST /keys/{prefix}/rotate', { path: { prefix: of.prefix }, body: { overlap_s: Number(overlap) } })).data as CreatedKey)}>
      <p>A new key takes its place, with the same rights, limits and what is counted. The old one goes on for a while, so that nothing stops.</p>
      <Choice name="overlap" label="The old key is good for" value={overlap} set={setOverlap} options={[['0', 'no longer'], ['3600', 'an hour'], ['86400', 'a day'], ['604800', 'a week'], ['2592000', '30 days']]} />
    </Confirm>
  );
}

function Use({ of }: { of: Key }) {
  const range = timeRange(), question = { since: range.since, until: range.until, key: of.prefix };
  const found = useResource(`use|${of.prefix}|${range.name ?? range.since + range.until}|${zone()}`, async (signal) => ({ range, all: await ask(question, signal), time: await ask({ ...question, interval: range.interval }, signal), models: await ask({ ...question, group_by: 'model', limit: 6 }, signal) }));
  if (found.error && !found.data) return <Fault error={found.error} retry={found.reload} />;
  if (!found.data) return <section class="panel"><Skeleton /></section>;
  const sum = total(found.data.all), { times, step, rows } = series(found.data.time, found.data.range), costs = column(rows[0]!, (row) => row.cost_microusd);
  return (
    <>
      <ul class="tiles four">
        <li class="panel tile plain"><span class="label">Requests</span><span class="value">{compact(sum?.requests ?? 0)}</span><span class="under">{range.label.toLowerCase()}</span></li>
        <li class="panel tile plain"><span class="label">Cost</span><span class="value">{money(sum?.cost_microusd ?? 0)}</span><span class="under">{sum?.unpriced ? `${count(sum.unpriced)} unpriced` : 'every request is priced'}</span></li>
        <li class="panel tile plain"><span class="label">Failed</span><span class="value">{share(sum?.failed ?? 0, sum?.requests ?? 0)}</span><span class="under">{count(sum?.failed ?? 0)} requests</span></li>
        <li class="panel tile plain"><span class="label">Refused</span><span class="value">{compact(sum?.refused ?? 0)}</span><span class="under"><a class="link" href={to('/requests', { show: 'refused', key: of.prefix })}>why</a></span></li>
      </ul>
      {sum && sum.requests > 0 && (
        <Figure title="Cost" note={found.data.models.data.length ? `Mostly for ${found.data.models.data.slice(0, 3).map((row) => row.group['model']).join(', ')}.` : ''} numbers={{ head: ['Time', 'Cost'], rows: times.map((at, index) => [dayAndClock(at), money(costs[index])]) }}>
          {(width) => <Stack width={width} times={times} step={step} layers={[{ name: 'cost', colour: 'c1', values: costs }]} text={money} tick={moneyTick} label={`Cost over time, ${money(sum.cost_microusd)} in all`} />}
        </Figure>
      )}
    </>
  );
}
