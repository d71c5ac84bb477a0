/** The settings in force, how long each table is kept, and what the doctor says. Settings are changed where the process is started. */
import { get } from '../../api';
import { compact, count, day } from '../../format';
import { marked } from '../../forms/FormField';
import { Head } from '../../parts/Head';
import { Empty, Loaded } from '../../parts/States';
import { useResource } from '../../resource';
import { go, here, place } from '../../router';
import { Doctor } from './Doctor';

const TABS: [string | null, string][] = [[null, 'Settings'], ['doctor', 'Doctor'], ['retention', 'What is kept']];

export function Settings() {
  const tab = place.value.query.get('tab');
  return (
    <>
      <Head title="Settings and doctor"><nav class="segments" aria-label="What to see">{TABS.map(([name, text]) => <a key={text} href={here({ tab: name })} aria-current={tab === name ? 'true' : undefined}>{text}</a>)}</nav></Head>
      {tab === 'doctor' ? <Doctor all /> : tab === 'retention' ? <Retention /> : <InForce />}
    </>
  );
}

function InForce() {
  const query = place.value.query, search = (query.get('search') ?? '').toLowerCase(), onlySet = query.get('set') === '1';
  const found = useResource('settings', (signal) => get('GET /settings', { signal }));
  return (
    <>
      <div class="filters">
        <input class="input narrow" type="search" aria-label="Search in settings" placeholder="A name, or what it does" value={query.get('search') ?? ''} onInput={(event) => go(here({ search: event.currentTarget.value }), { replace: true })} />
        <a class={`chip${onlySet ? ' on' : ''}`} href={here({ set: onlySet ? null : 1 })}>differ from their default{onlySet && ' ✕'}</a>
      </div>
      <Loaded from={found} lines={10}>
        {(page) => {
          const rows = page.data.filter((each) => (!onlySet || each.is_set) && `${each.name} ${each.description}`.toLowerCase().includes(search));
          if (!rows.length) return <section class="panel"><Empty title="No setting matches"><a class="button" href={here({ search: null, set: null })}>See all of them</a></Empty></section>;
          return (
            <section class="panel flush">
              <div class="panel-head"><p class="note">Of the process that answers. They are environment variables: change them where it is started. Secrets are never shown.</p></div>
              <div class="scroll" tabIndex={0} role="region" aria-label="Settings">
                <table class="rows list cards still settings">
                  <thead><tr><th scope="col">Setting</th><th scope="col">Value</th><th scope="col">What it does</th></tr></thead>
                  <tbody>{rows.map((each) => <tr key={each.name}><th scope="row" class="full mono">{each.name}{each.is_set && <span class="tag info">set</span>}</th><td class="mono full">{each.secret ? <span class="dim">{each.is_set ? 'set, and not shown' : 'not set'}</span> : each.value === null ? <span class="dim">empty</span> : String(each.value)}</td><td class="full">{marked(each.description)}</td></tr>)}</tbody>
                </table>
              </div>
            </section>
          );
        }}
      </Loaded>
    </>
  );
}

function Retention() {
  const found = useResource('retention', (signal) => get('GET /retention', { signal }));
  return (
    <Loaded from={found} lines={8}>
      {(data) => (
        <section class="panel flush">
          <div class="scroll" tabIndex={0} role="region" aria-label="What is kept">
            <table class="rows list cards still">
              <thead><tr><th scope="col">Table</th><th scope="col">Kept for</th><th scope="col">By</th><th scope="col">Oldest</th><th scope="col" class="n">Rows, about</th><th scope="col" class="n">Size</th></tr></thead>
              <tbody>{data.data.map((each) => <tr key={each.table}><th scope="row" class="full">{each.table.replaceAll('_', ' ')}</th><td>{each.keep_days === null ? 'ever' : `${count(each.keep_days)} days`}</td><td class="mono preview">{each.setting ?? <span class="dim">–</span>}</td><td>{each.oldest ? day(each.oldest) : <span class="dim">–</span>}</td><td class="n" data-name="rows">{compact(each.rows)}</td><td class="n" data-name="size">{each.size_bytes === null ? '–' : `${compact(each.size_bytes / 1024)} KiB`}</td></tr>)}</tbody>
            </table>
          </div>
        </section>
      )}
    </Loaded>
  );
}
