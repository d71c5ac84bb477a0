/** Functions: tasks with variants; one of them with its templates, a rendered preview, and how each variant does. */
import { useState } from 'preact/hooks';
import { ask } from '../../analytics';
import { call, get } from '../../api';
import { compact, duration, money, moment, plural, share } from '../../format';
import type { FunctionEntry, FunctionPreview } from '../../generated/api';
import { EditPage } from '../../forms/EditPage';
import { useSubmit } from '../../parts/Dialog';
import { Area, Choice } from '../../parts/Field';
import { Head } from '../../parts/Head';
import { Empty, Fault, Loaded, Skeleton } from '../../parts/States';
import { pretty, Text } from '../../parts/Text';
import { useResource } from '../../resource';
import { place, to } from '../../router';
import { may } from '../../session';
import { scopeTeam, timeRange } from '../../scope';
import { ApiError } from '../../api';

export function Functions() {
  const name = place.value.path.split('/')[2], edited = place.value.query.getAll('edit');
  if (place.value.query.has('new')) return <EditPage key="new" section="functions" keys={null} />;
  if (edited.length) return <EditPage key={edited.join('/')} section="functions" keys={edited} />;
  return name ? <FunctionView key={name} name={decodeURIComponent(name)} /> : <FunctionList />;
}

function FunctionList() {
  const found = useResource('functions', (signal) => get('GET /functions', { query: { limit: 200, sort: 'name' }, signal }));
  return (
    <>
      <Head title="Functions" about="Tasks with variants: a model with its prompt and parameters">{may('config:write') && <a class="button primary" href={to('/functions', { new: 1 })}>New function</a>}</Head>
      <Loaded from={found}>
        {(page) => (page.data.length === 0 ? <section class="panel"><Empty title="No function"><p>A function is a name that callers use like a model; its variants are models with prompts, and an experiment may decide between them.</p></Empty></section> : (
          <section class="panel flush"><div class="scroll" tabIndex={0} role="region" aria-label="Functions"><table class="rows list cards still">
            <thead><tr><th scope="col">Function</th><th scope="col">Type</th><th scope="col">Variants</th><th scope="col">Experiment</th><th scope="col">What it is for</th><th scope="col">Changed</th></tr></thead>
            <tbody>{page.data.map((each) => <tr key={each.name}><th scope="row" class="full"><a href={to(`/functions/${encodeURIComponent(each.name)}`)}>{each.name}</a></th><td>{each.type ?? 'chat'}</td><td class="preview">{Object.keys(each.variants).join(', ')}</td><td>{each.experiment ? <a class="link" href={to(`/experiments/${encodeURIComponent(each.experiment.name ?? each.name)}`)}>{each.experiment.status ?? 'running'}</a> : <span class="dim">–</span>}</td><td class="preview">{each.description ?? <span class="dim">–</span>}</td><td>{moment(each.updated_at)}</td></tr>)}</tbody>
          </table></div></section>
        ))}
      </Loaded>
    </>
  );
}

function FunctionView({ name }: { name: string }) {
  const range = timeRange(), team = scopeTeam();
  const found = useResource(`function|${name}`, (signal) => get('GET /functions/{name}', { path: { name }, signal }));
  const use = useResource(`variants-of|${name}|${team}|${range.name ?? range.since + range.until}`, (signal) => ask({ since: range.since, until: range.until, team, function: name, group_by: 'variant', quantiles: true, limit: 30 }, signal));
  const entry = found.data;
  if (!entry) return <><Head title={name} />{found.error ? <Fault error={found.error} retry={found.reload} /> : <section class="panel"><Skeleton /></section>}</>;
  return (
    <>
      <Head title={entry.name} about={entry.description ?? `${plural(Object.keys(entry.variants).length, 'variant')}`}>
        {entry.experiment && <a class="button" href={to(`/experiments/${encodeURIComponent(entry.experiment.name ?? entry.name)}`)}>Its experiment</a>}
        <a class="button" href={to('/requests', { function: entry.name })}>Its requests</a>
        {may('config:write') && <a class="button" href={to('/functions', { edit: entry.name })}>Change …</a>}
      </Head>
      <Loaded from={use} lines={4}>
        {(answer) => (
          <section class="panel flush">
            <div class="panel-head"><h2>Variants</h2><p class="note">{range.label.toLowerCase()}; which is better, only an experiment says</p></div>
            <div class="scroll" tabIndex={0} role="region" aria-label="Variants"><table class="rows list cards still">
              <thead><tr><th scope="col">Variant</th><th scope="col">Model</th><th scope="col" class="n">Requests</th><th scope="col" class="n">Failed</th><th scope="col" class="n">p50</th><th scope="col" class="n">p95</th><th scope="col" class="n">Cost of a thousand</th></tr></thead>
              <tbody>{Object.entries(entry.variants).map(([variant, settings]) => {
                const row = answer.data.find((each) => each.group['variant'] === variant);
                return <tr key={variant}><th scope="row" class="full"><a href={to('/requests', { function: entry.name, variant })}>{variant}</a>{variant === entry.default && <span class="tag">default</span>}</th><td><a href={to(`/models/${encodeURIComponent(settings.model)}`)}>{settings.model}</a></td><td class="n" data-name="requests">{compact(row?.requests ?? 0)}</td><td class="n" data-name="failed">{share(row?.failed ?? 0, row?.requests ?? 0)}</td><td class="n wide-only">{duration(row?.duration?.p50)}</td><td class="n" data-name="p95">{duration(row?.duration?.p95)}</td><td class="n">{row?.requests ? money((row.cost_microusd / row.requests) * 1000) : '–'}</td></tr>;
              })}</tbody>
            </table></div>
          </section>
        )}
      </Loaded>
      <div class="columns even">
        <section class="panel"><h2>Prompts</h2><div class="rows-of">{Object.entries(entry.variants).map(([variant, settings]) => <Templates key={variant} name={variant} templates={[['system', settings.system_template], ['user', settings.user_template], ['assistant', settings.assistant_template]]} params={settings.params} />)}</div></section>
        <Preview entry={entry} />
      </div>
    </>
  );
}

function Templates({ name, templates, params }: { name: string; templates: [string, string | null | undefined][]; params: Record<string, unknown> | undefined }) {
  const set = templates.filter(([, text]) => text);
  return (
    <div>
      <h3>{name}</h3>
      {set.length === 0 && <p class="note">No template: the caller's messages go as they are.</p>}
      {set.map(([role, text]) => <div key={role} class="message"><header>{role}</header><Text text={text!} /></div>)}
      {params && Object.keys(params).length > 0 && <p class="note mono">{Object.entries(params).map(([key, value]) => `${key} = ${JSON.stringify(value)}`).join(', ')}</p>}
    </div>
  );
}

function Preview({ entry }: { entry: FunctionEntry }) {
  const [variant, setVariant] = useState(Object.keys(entry.variants)[0] ?? ''), [text, setText] = useState('{\n  "messages": [{"role": "user", "content": "Hello"}]\n}'), [shown, setShown] = useState<FunctionPreview | null>(null);
  const form = useSubmit(async () => {
    let request: Record<string, unknown>;
    try {
      request = JSON.parse(text) as Record<string, unknown>;
    } catch {
      throw new ApiError(0, 'This is no JSON.', null, 'request', null, null);
    }
    setShown((await call('POST /functions/{name}/render', { path: { name: entry.name }, query: { variant, dialect: 'openai_chat' }, body: { request } })).data);
  });
  return (
    <section class="panel">
      <h2>What the model would get</h2>
      <form class="form" onSubmit={(event) => { event.preventDefault(); void form.submit(); }}>
        <Choice name="variant" label="Variant" value={variant} set={setVariant} options={Object.keys(entry.variants).map((each): [string, string] => [each, each])} />
        <Area name="request" label="A caller's request" value={text} set={setText} rows={6} error={form.error} />
        {form.error && form.error.param === null && <p class="bad" role="alert">{form.error.message}</p>}
        {form.error?.param && form.error.param !== 'request' && <p class="bad" role="alert">{form.error.message}</p>}
        <p><button class="button" disabled={form.busy}>Render</button></p>
      </form>
      {shown && <><p class="note">About {shown.input_tokens} input tokens, to {shown.model}</p><pre class="code" tabIndex={0}>{pretty(shown.request)}</pre></>}
    </section>
  );
}
