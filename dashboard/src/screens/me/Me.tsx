/** The page of a key that is no admin key: what is left of its limits, what it used, its models and its requests. */
import { useState } from 'preact/hooks';
import { Figure } from '../../charts/Figure';
import { Meter } from '../../charts/Meter';
import { Stack } from '../../charts/Stack';
import { get } from '../../api';
import { compact, count, dayAndClock, day, dollars, percent, plural } from '../../format';
import type { OwnKey } from '../../generated/api';
import { Head } from '../../parts/Head';
import { Snippet } from '../../parts/Snippet';
import { Empty, Loaded } from '../../parts/States';
import { useResource } from '../../resource';
import { to } from '../../router';
import { describe, timeRange } from '../../scope';
import { session } from '../../session';
import { callersBase } from '../playground/Code';
import { snippet } from '../playground/snippets';
import { amountOf, own, resets } from './facts';
import type { Rule, Sums, UsableModel } from './facts';
import { OwnRequests } from './OwnRequests';

export function Me() {
  const id = session.value?.id;
  const key = useResource(`own-key|${id}`, (signal) => get('GET /own/key', { signal }));
  return (
    <>
      <Head title={key.data?.name || 'My key'} tags={<span class="tag">{id}</span>} about={key.data && `of team ${key.data.team}`}>
        <a class="button primary" href={to('/playground')}>Playground</a>
      </Head>
      <Usage />
      <div class="columns even">
        <Left />
        <Models />
      </div>
      <OwnRequests />
      <Loaded from={key}>{(data) => <About data={data} />}</Loaded>
    </>
  );
}

const HOUR = 3_600_000;

function Usage() {
  const range = timeRange(), since = Math.floor(Date.parse(range.since) / HOUR) * HOUR, until = Math.ceil(Date.parse(range.until) / HOUR) * HOUR;
  const isLong = until - since > 31 * 24 * HOUR, step = isLong ? 24 * HOUR : HOUR, from = isLong ? Math.floor(since / step) * step : since;
  const query = { from: new Date(from).toISOString(), to: new Date(until).toISOString(), group_by: isLong ? 'day' : 'hour' };
  const found = useResource(`own-usage|${session.value?.id}|${range.name ?? range.since + range.until}`, (signal) => own<{ data: Sums[]; total: Sums }>('GET /own/usage', signal, query), 60);
  return (
    <Loaded from={found}>
      {({ data, total }) => {
        const times: number[] = [], rows = new Map(data.map((row) => [Date.parse((row.hour ?? row.day)!), row]));
        for (let at = from; at < until; at += step) times.push(at);
        const failed = times.map((at) => rows.get(at)?.failed ?? 0), served = times.map((at, index) => (rows.get(at)?.requests ?? 0) - failed[index]!);
        return (
          <>
            <div class="tiles four">
              <Tile name="Requests" value={compact(total.requests)} under={describe(range)} />
              <Tile name="Failed" value={compact(total.failed)} under={total.requests ? percent(total.failed / total.requests, 2) : 'no request'} />
              <Tile name="Tokens" value={compact(total.input_tokens + total.output_tokens)} under={`${compact(total.input_tokens)} input, ${compact(total.output_tokens)} output`} />
              <Tile name="Cost" value={dollars(total.cost_usd)} under={total.unpriced ? `${count(total.unpriced)} without a price` : 'every request has a price'} />
            </div>
            <Figure
              title={`${plural(total.requests, 'request')}, ${total.failed ? count(total.failed) : 'none'} failed`}
              note={`by the ${isLong ? 'day' : 'hour'}`}
              legend={[{ name: 'answered', colour: 'soft' }, { name: 'failed', colour: 'c5' }]}
              numbers={{ head: ['Time', 'answered', 'failed', 'cost'], rows: times.map((at, index): [number, (string | number)[]] => [served[index]! + failed[index]!, [isLong ? day(at) : dayAndClock(at), count(served[index]!), count(failed[index]!), dollars(rows.get(at)?.cost_usd ?? 0)]]).filter(([sum]) => sum > 0).map(([, row]) => row) }}
            >
              {(width) => <Stack width={width} times={times} step={step} layers={[{ name: 'answered', colour: 'soft', values: served }, { name: 'failed', colour: 'c5', values: failed }]} label={`${count(total.requests)} requests, ${count(total.failed)} of them failed`} />}
            </Figure>
          </>
        );
      }}
    </Loaded>
  );
}

function Tile({ name, value, under }: { name: string; value: string; under: string }) {
  return <div class="panel tile plain"><span class="label">{name}</span><span class="value">{value}</span><span class="under">{under}</span></div>;
}

function Left() {
  const [model, setModel] = useState(''), id = session.value?.id, models = useModels();
  const found = useResource(`own-limits|${id}|${model}`, (signal) => own<{ data: Rule[] }>('GET /own/limits', signal, model ? { model } : {}), 30);
  return (
    <Loaded from={found}>
      {({ data }) => (
        <section class="panel">
          <div class="panel-head"><h2>What is left</h2><p class="note">of the limits and budgets that your key meets</p><label><span class="sr">With those of a model</span><select class="own-choice" value={model} onChange={(event) => setModel(event.currentTarget.value)}><option value="">for every model</option>{(models.data ?? []).map((each) => <option key={each.id} value={each.id}>for {each.id}</option>)}</select></label></div>
          {data.length ? (
            <ul class="left-list">
              {[...data].sort((a, b) => a.remaining / a.amount - b.remaining / b.amount).map((rule) => (
                <li key={rule.rule}>
                  <p class="one-line"><b>{rule.rule}{rule.dry_run && <span class="tag">only counts</span>}</b><span>{amountOf(rule, rule.remaining)} left of {amountOf(rule, rule.amount)}{rule.per && ` a ${rule.per}`}</span></p>
                  <Meter used={Math.max(0, rule.amount - rule.remaining)} of={rule.amount} label={`${percent(1 - rule.remaining / (rule.amount || 1), 0)} used`} />
                  <small>{scopeOf(rule)}{resets(rule) && ` · ${resets(rule)}`}</small>
                </li>
              ))}
            </ul>
          ) : <Empty title="No limit applies"><p class="note">A limit of a single model may: choose it above.</p></Empty>}
        </section>
      )}
    </Loaded>
  );
}

function scopeOf({ scope }: Rule): string {
  const names = Object.keys(scope);
  if (names.includes('key')) return 'counts this key alone';
  if (names.includes('team')) return 'shared with your team';
  return names.includes('all') || !names.length ? 'shared by everybody' : `by ${names.join(' and ')}`;
}

const useModels = () => useResource(`own-models-in-full|${session.value?.id}`, async (signal) => (await own<{ data: UsableModel[] }>('GET /own/models', signal)).data);

function Models() {
  const found = useModels();
  return (
    <Loaded from={found}>
      {(models) => (
        <section class="panel flush">
          <div class="panel-head"><h2>{plural(models.length, 'model or function', 'models and functions')}</h2><p class="note">that your key may use</p></div>
          {models.length ? (
            <div class="scroll own-models" tabIndex={0} role="region" aria-label="Models">
              <table class="rows">
                <thead><tr><th scope="col">Name</th><th scope="col" class="n">Context</th><th scope="col" class="n">$ a million tokens</th></tr></thead>
                <tbody>{models.map((each) => <tr key={each.id}><th scope="row" class="wrap"><a href={to('/playground', { model: each.id })}>{each.id}</a></th><td class="n">{each.context_length == null ? '–' : compact(each.context_length)}</td><td class="n">{each.pricing ? `${each.pricing.input} in, ${each.pricing.output} out` : '–'}</td></tr>)}</tbody>
              </table>
            </div>
          ) : <Empty title="No model yet"><p class="note">Whoever issued the key says which models it may use.</p></Empty>}
        </section>
      )}
    </Loaded>
  );
}

const CONTENT: Record<string, string> = { full: 'what is written is kept, and your team’s administrators may read it', masked: 'what is written is kept with names and numbers masked', redacted: 'only the structure is kept, not what is written', none: 'nothing of what is written is kept' };

function About({ data }: { data: OwnKey }) {
  const listed = (names: readonly string[] | null, all: string) => (names ? names.join(', ') || 'none' : all);
  return (
    <div class="columns even">
      <section class="panel">
        <h2>What the key may do</h2>
        <dl class="facts">
          <dt>Models</dt><dd>{listed(data.models, 'every model')}</dd>
          <dt>Routes</dt><dd>{listed(data.routes, 'every route of callers')}</dd>
          <dt>From</dt><dd>{listed(data.networks, 'every network')}</dd>
          <dt>Until</dt><dd>{data.expires_at ? dayAndClock(data.expires_at) : 'it is revoked'}</dd>
          <dt>Since</dt><dd>{dayAndClock(data.created_at)}</dd>
          <dt>Records</dt><dd>{CONTENT[data.content] ?? data.content}</dd>
        </dl>
      </section>
      <section class="panel rows-of">
        <h2>From a program</h2>
        <Snippet text={snippet('curl', callersBase(), { model: data.models?.find((each) => !each.endsWith('*')) ?? 'MODEL', messages: [{ role: 'user', content: 'Hello!' }] })} what="The command" />
      </section>
    </div>
  );
}
