/** One model: its targets with what they do and cost now, its settings, and its history. */
import { ask } from '../../analytics';
import { get } from '../../api';
import { compact, duration, money, percent, plural, share } from '../../format';
import { Head } from '../../parts/Head';
import { Fault, Loaded, Skeleton } from '../../parts/States';
import { pretty } from '../../parts/Text';
import { useResource } from '../../resource';
import { to } from '../../router';
import { may } from '../../session';
import { scopeTeam, timeRange } from '../../scope';

/** What is set: a default says nothing. */
function set(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(set);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== null && !(typeof each === 'object' && Object.keys(each as object).length === 0)).map(([name, each]) => [name, set(each)]));
}

export function ModelView({ name }: { name: string }) {
  const range = timeRange(), team = scopeTeam();
  const found = useResource(`model|${name}`, (signal) => get('GET /models/{name}', { path: { name }, signal }));
  const use = useResource(`targets-of|${name}|${team}|${range.name ?? range.since + range.until}`, (signal) => ask({ since: range.since, until: range.until, team, model: name, group_by: 'target', quantiles: true, limit: 20 }, signal));
  const model = found.data;
  if (!model) return <><Head title={name} />{found.error ? <Fault error={found.error} retry={found.reload} /> : <section class="panel"><Skeleton /></section>}</>;
  const weights = (model.targets ?? []).reduce((sum, each) => sum + (each.weight ?? 0), 0);
  return (
    <>
      <Head title={model.name} about={`model, ${plural(model.targets?.length ?? 0, 'target')}`}><a class="button" href={to('/requests', { model: model.name })}>Its requests</a>{may('config:write') && <a class="button" href={to('/models', { edit: model.name })}>Change …</a>}</Head>
      <Loaded from={use} lines={4}>
        {(answer) => {
          const by = new Map(answer.data.map((row) => [row.group['target'] ?? '', row]));
          const listed = (model.targets ?? []).map((each) => `${each.provider}/${each.model}`), names = [...new Set([...listed, ...answer.data.filter((row) => row.requests > 0).map((row) => row.group['target'] ?? '')])];
          return (
            <section class="panel flush">
              <div class="panel-head"><h2>Who served it</h2><p class="note">{range.label.toLowerCase()}</p></div>
              <div class="scroll" tabIndex={0} role="region" aria-label="Targets">
                <table class="rows list cards still">
                  <thead><tr><th scope="col">Target</th><th scope="col" class="n">Weight</th><th scope="col" class="n">Requests</th><th scope="col" class="n">Failed</th><th scope="col" class="n">p50</th><th scope="col" class="n">p95</th><th scope="col" class="n">First token</th><th scope="col" class="n">Cost</th></tr></thead>
                  <tbody>{names.map((target) => {
                    const row = by.get(target), setting = (model.targets ?? []).find((each) => `${each.provider}/${each.model}` === target);
                    return <tr key={target}><th scope="row" class="full">{target || 'nobody'}{!setting && target && <span class="tag">not its own target</span>}</th><td class="n" data-name="weight">{setting?.weight != null && weights > 0 ? percent(setting.weight / weights, 0) : '–'}</td><td class="n" data-name="requests">{compact(row?.requests ?? 0)}</td><td class="n" data-name="failed">{share(row?.failed ?? 0, row?.requests ?? 0)}</td><td class="n wide-only">{duration(row?.duration?.p50)}</td><td class="n" data-name="p95">{duration(row?.duration?.p95)}</td><td class="n wide-only">{duration(row?.first_token?.p50)}</td><td class="n">{money(row?.cost_microusd ?? 0)}</td></tr>;
                  })}</tbody>
                </table>
              </div>
            </section>
          );
        }}
      </Loaded>
      <section class="panel"><h2>As it is configured</h2><pre class="code" tabIndex={0}>{pretty(set(model))}</pre></section>
    </>
  );
}
