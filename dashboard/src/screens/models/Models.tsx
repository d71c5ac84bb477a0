/** What a name leads to: models with their targets, providers, and prices. */
import { useState } from 'preact/hooks';
import { call, get } from '../../api';
import { count, dollars, moment, plural } from '../../format';
import type { ModelEntry, PriceEntry, ProviderEntry } from '../../generated/api';
import { EditPage } from '../../forms/EditPage';
import type { Extra } from '../../forms/EditPage';
import { keyOfEntry, SECTIONS } from '../../forms/sections';
import type { Draft } from '../../forms/values';
import { Head } from '../../parts/Head';
import { Dialog } from '../../parts/Dialog';
import { Empty, Fault, Loaded, Skeleton } from '../../parts/States';
import { useResource } from '../../resource';
import { here, place, to } from '../../router';
import { may } from '../../session';
import { ModelView } from './ModelView';
import { CheckResults, ProviderExtras } from './ProviderExtras';

type Tab = 'models' | 'providers' | 'prices';
const TABS: [Tab, string][] = [['models', 'Models'], ['providers', 'Providers'], ['prices', 'Prices']];

export function Models() {
  const name = place.value.path.split('/')[2], query = place.value.query, edited = query.getAll('edit'), tab = tabOf();
  if (query.has('new')) return <EditPage key="new" section={tab} keys={null} {...extras(tab)} />;
  if (edited.length) return <EditPage key={edited.join('/')} section={tab} keys={edited} {...extras(tab)} />;
  return name ? <ModelView key={name} name={decodeURIComponent(name)} /> : <Lists />;
}

const tabOf = () => (place.value.query.get('tab') as Tab | null) ?? 'models';
const extras = (tab: Tab) => (tab === 'providers' ? { extra: (extra: Extra) => <ProviderExtras {...extra} /> } : {});

function Lists() {
  const tab = tabOf();
  return (
    <>
      <Head title="Models and prices"><nav class="segments" aria-label="What to see">{TABS.map(([name, text]) => <a key={name} href={here({ tab: name === 'models' ? null : name })} aria-current={tab === name ? 'true' : undefined}>{text}</a>)}</nav>{may('config:write') && <a class="button primary" href={here({ new: 1 })}>New {tab.slice(0, -1)}</a>}</Head>
      {tab === 'models' && <ModelList />}
      {tab === 'providers' && <ProviderList />}
      {tab === 'prices' && <PriceList />}
    </>
  );
}

function ModelList() {
  const found = useResource('models', (signal) => get('GET /models', { query: { limit: 200, sort: 'name' }, signal }));
  return (
    <Loaded from={found}>
      {(page) => (page.data.length === 0 ? <section class="panel"><Empty title="No model"><p>A model is a name that callers may use, with the targets that serve it. <code>narthex apply FILE</code> brings them.</p></Empty></section> : (
        <section class="panel flush">
          <div class="scroll" tabIndex={0} role="region" aria-label="Models">
            <table class="rows list cards still">
              <thead><tr><th scope="col">Model</th><th scope="col">Targets, in order</th><th scope="col">Then</th><th scope="col">Can</th><th scope="col" class="n">Context</th><th scope="col">Changed</th></tr></thead>
              <tbody>{page.data.map((each: ModelEntry) => (
                <tr key={each.name}>
                  <th scope="row" class="full"><a href={to(`/models/${encodeURIComponent(each.name)}`)}>{each.name}</a>{each.experiment && <span class="tag info">experiment</span>}{each.shadow && <span class="tag">shadow</span>}</th>
                  <td class="preview full" title={(each.targets ?? []).map((target) => `${target.provider}/${target.model}`).join(', ')}>{(each.targets ?? []).map((target) => `${target.provider}/${target.model}`).join(', ') || <span class="dim">none of its own</span>}</td>
                  <td class="preview">{each.fallbacks?.join(', ') || <span class="dim">–</span>}</td>
                  <td class="preview wide">{(each.capabilities ?? []).join(', ').replaceAll('_', ' ') || <span class="dim">as its engine says</span>}</td>
                  <td class="n" data-name="context">{count(each.context_length)}</td>
                  <td>{moment(each.updated_at)}</td>
                </tr>
              ))}</tbody>
            </table>
          </div>
          {page.next && <p class="more"><span class="dim">The first {count(page.data.length)}; Ctrl K finds others.</span></p>}
        </section>
      ))}
    </Loaded>
  );
}

function ProviderList() {
  const [testing, setTesting] = useState<string | null>(null);
  const found = useResource('providers', (signal) => get('GET /providers', { query: { limit: 200, sort: 'name' }, signal }));
  return (
    <>
    {testing && <ProviderTestDialog name={testing} close={() => setTesting(null)} />}
    <Loaded from={found}>
      {(page) => (page.data.length === 0 ? <section class="panel"><Empty title="No provider"><p>A provider is a host or an engine: where models are served.</p></Empty></section> : (
        <section class="panel flush">
          <div class="scroll" tabIndex={0} role="region" aria-label="Providers">
            <table class="rows list cards still">
              <thead><tr><th scope="col">Provider</th><th scope="col">Adapter</th><th scope="col">Address</th><th scope="col">Credential</th><th scope="col">Nodes</th><th scope="col">Changed</th><th scope="col"><span class="sr">Acts</span></th></tr></thead>
              <tbody>{page.data.map((each: ProviderEntry) => <tr key={each.name}><th scope="row" class="full"><a href={to('/requests', { provider: each.name })}>{each.name}</a></th><td>{each.adapter}</td><td class="mono preview">{each.base_url ?? <span class="dim">its usual one</span>}</td><td class="preview">{Array.isArray(each.credential) ? plural(each.credential.length, 'credential') : (each.credential ?? <span class="dim">none</span>)}</td><td>{each.accepts_nodes ? 'register themselves' : <span class="dim">no</span>}</td><td>{moment(each.updated_at)}</td><td class="n end">{may('config:write') && <><button class="button small" onClick={() => setTesting(each.name)}>Test …</button> <a class="button small" href={here({ edit: each.name })}>Change …</a></>}</td></tr>)}</tbody>
            </table>
          </div>
        </section>
      ))}
    </Loaded>
    </>
  );
}

/** Asks the provider itself, as `narthex providers test` does. */
function ProviderTestDialog({ name, close }: { name: string; close: () => void }) {
  const found = useResource(`test-of|${name}|${Date.now() >> 14}`, (signal) => call('POST /providers/{name}/test', { path: { name }, body: {}, signal }));
  return (
    <Dialog title={`Test of ${name}`} close={close}>
      {found.error ? <Fault error={found.error} retry={found.reload} /> : !found.data ? <Skeleton lines={5} /> : <CheckResults found={found.data.data} />}
      <div class="dialog-foot"><button class="button" onClick={close}>Close</button></div>
    </Dialog>
  );
}

function PriceList() {
  const found = useResource('prices', (signal) => get('GET /prices', { query: { limit: 200 }, signal }));
  return (
    <Loaded from={found}>
      {(page) => (page.data.length === 0 ? <section class="panel"><Empty title="No price is set"><p>Without prices, requests are counted as unpriced, and cost nothing in any sum.</p></Empty></section> : (
        <section class="panel flush">
          <div class="panel-head"><h2>Dollars for a million tokens</h2></div>
          <div class="scroll" tabIndex={0} role="region" aria-label="Prices">
            <table class="rows list cards still">
              <thead><tr><th scope="col">Provider and model</th><th scope="col" class="n">Input</th><th scope="col" class="n">Output</th><th scope="col" class="n">Cached input</th><th scope="col">Since</th><th scope="col">Else</th><th scope="col">Source</th><th scope="col"><span class="sr">Acts</span></th></tr></thead>
              <tbody>{page.data.map((each: PriceEntry) => <tr key={`${each.provider}/${each.model}/${each.since}`}><th scope="row" class="full">{each.provider}/{each.model}</th><td class="n" data-name="input">{dollars(each.input)}</td><td class="n" data-name="output">{dollars(each.output)}</td><td class="n" data-name="cached">{dollars(each.cached_input)}</td><td>{each.since ?? <span class="dim">always</span>}</td><td>{[each.steps?.length && plural(each.steps.length, 'step'), each.hours?.length && plural(each.hours.length, 'hour band'), each.gpu && `${dollars(each.gpu.usd_per_hour)} a GPU hour`].filter(Boolean).join(', ') || <span class="dim">–</span>}</td><td class="preview">{each.source ?? <span class="dim">–</span>}</td><td class="n end">{may('config:write') && <a class="button small" href={here({ edit: keyOfEntry(SECTIONS.prices, each as unknown as Draft) })}>Change …</a>}</td></tr>)}</tbody>
            </table>
          </div>
        </section>
      ))}
    </Loaded>
  );
}
