/** One dataset: its versions, each with what became of its selection, some of its rows, and what was left out. */
import { useState } from 'preact/hooks';
import { apiAddress, call, get } from '../../api';
import { compact, count, moment, percent, plural } from '../../format';
import type { Dataset, DatasetVersion, Operations } from '../../generated/api';
import { BodyForm } from '../../forms/BodyForm';
import { Confirm } from '../../parts/Dialog';
import { Head, When } from '../../parts/Head';
import { Empty, Fault, Loaded, Skeleton } from '../../parts/States';
import { Inline } from '../../parts/Text';
import { toast } from '../../parts/Toast';
import { forgetAll, useResource } from '../../resource';
import { go, here, place, to } from '../../router';
import { mayAnywhere, may as mayIn } from '../../session';

type Act = { kind: 'delete' } | { kind: 'version'; version: DatasetVersion; cancel: boolean };

export function DatasetView({ name }: { name: string }) {
  const [act, setAct] = useState<Act | null>(null), path = { name };
  const found = useResource(`dataset|${name}`, (signal) => call('GET /datasets/{name}', { path, signal }));
  const versions = useResource(`dataset-versions|${name}`, (signal) => get('GET /datasets/{name}/versions', { path, query: { limit: 100 }, signal }), 15);
  const dataset = found.data?.data;
  if (!dataset) return <><Head title={name} />{found.error ? <Fault error={found.error} retry={found.reload} /> : <section class="panel"><Skeleton /></section>}</>;
  const may = mayIn('datasets:write', dataset.team);
  if (place.value.query.has('new') && may) return <NewVersion name={name} newest={versions.data?.data[0]} />;
  const chosen = place.value.query.get('version'), shown = versions.data?.data.find((each) => String(each.number) === chosen) ?? versions.data?.data[0];
  const ended = () => { forgetAll(); versions.reload(); };
  return (
    <>
      <Head title={dataset.name} about={dataset.description ?? scopeOf(dataset)}>
        {may && <><button class="button danger" onClick={() => setAct({ kind: 'delete' })}>Delete …</button><a class="button primary" href={here({ new: 1 })}>New version</a></>}
      </Head>
      <Loaded from={{ ...versions, loading: versions.loading && !versions.data }}>
        {(page) => (page.data.length === 0 ? <section class="panel"><Empty title="No version yet"><p>A version is what a selection found at one time: it does not change.</p>{may && <a class="button" href={here({ new: 1 })}>New version</a>}</Empty></section> : (
          <section class="panel flush">
            <div class="panel-head"><h2>Versions</h2><p class="note">{scopeOf(dataset)}</p></div>
            <div class="scroll" tabIndex={0} role="region" aria-label="Versions">
              <table class="rows list cards still">
                <thead><tr><th scope="col">Version</th><th scope="col">State</th><th scope="col">Selection</th><th scope="col" class="n">Matched</th><th scope="col" class="n">Rows</th><th scope="col" class="n">Size</th><th scope="col">Created</th><th scope="col"><span class="sr">Acts</span></th></tr></thead>
                <tbody>{page.data.map((each) => (
                  <tr key={each.number} class={each === shown ? 'on' : ''}>
                    <th scope="row"><a href={here({ version: each.number })} aria-current={each === shown ? 'true' : undefined}>{each.number}</a></th>
                    <td><span class={`tag ${TONES[each.status]}`}>{each.status}</span></td>
                    <td class="preview full" title={selectionWords(each)}>{selectionWords(each)}</td>
                    <td class="n" data-name="matched">{count(each.examined)}</td>
                    <td class="n" data-name="rows">{count(each.rows)}</td>
                    <td class="n wide-only">{bytes(each.size_bytes)}</td>
                    <td><When at={each.created_at} words={moment(each.created_at)} /></td>
                    <td class="n end">{may && each.status === 'building' && <button class="button small" onClick={() => setAct({ kind: 'version', version: each, cancel: true })}>Cancel …</button>}{may && (each.status === 'complete' || each.status === 'failed') && <button class="button small" onClick={() => setAct({ kind: 'version', version: each, cancel: false })}>Delete rows …</button>}</td>
                  </tr>
                ))}</tbody>
              </table>
            </div>
          </section>
        ))}
      </Loaded>
      {shown && shown.status !== 'deleted' && <VersionPanels dataset={dataset} version={shown} />}
      {act?.kind === 'delete' && (
        <Confirm title={`Delete ${name}`} act="Delete" danger type={name} close={() => setAct(null)} run={async () => { await call('DELETE /datasets/{name}', { path, ifMatch: found.data!.etag }); forgetAll(); toast(`${name} is deleted`); go(to('/datasets')); }}>
          <p>All its versions and their rows are deleted. The requests that they were made of stay.</p>
        </Confirm>
      )}
      {act?.kind === 'version' && (
        <Confirm
          title={act.cancel ? `Cancel version ${act.version.number}` : `Delete the rows of version ${act.version.number}`}
          act={act.cancel ? 'Cancel it' : 'Delete the rows'}
          danger
          close={() => setAct(null)}
          run={async () => {
            const of = { name, number: String(act.version.number) };
            await (act.cancel ? call('POST /datasets/{name}/versions/{number}/cancel', { path: of }) : call('DELETE /datasets/{name}/versions/{number}', { path: of }));
            toast(act.cancel ? 'It is built no further' : 'Its rows are deleted');
            ended();
          }}
        >
          <p>{act.cancel ? 'What was built of it until now is deleted.' : 'Its number stays, and is not given again.'}</p>
        </Confirm>
      )}
    </>
  );
}

const TONES: Record<DatasetVersion['status'], string> = { building: 'info', complete: 'ok', failed: 'bad', cancelled: '', deleted: '' };
const scopeOf = (dataset: Dataset) => (dataset.team ? `of team ${dataset.team} alone` : 'of all teams');
const bytes = (size: number) => (size < 1024 ? `${count(size)} B` : size < 1024 ** 2 ? `${count(size / 1024)} KiB` : `${count(size / 1024 ** 2)} MiB`);

function selectionWords({ selection }: DatasetVersion): string {
  const words = Object.entries(selection).flatMap(([name, value]): string[] => {
    if (value == null || value === '' || (Array.isArray(value) && !value.length) || (typeof value === 'object' && !Object.keys(value).length) || ['seed', 'max_rows', 'output'].includes(name)) return [];
    if (name === 'feedback') return selection.feedback!.map((each) => `${each.metric} ${each.value != null ? `is ${String(each.value)}` : [each.min != null && `≥ ${each.min}`, each.max != null && `≤ ${each.max}`].filter(Boolean).join(', ')}`);
    if (name === 'validation' || name === 'sample') return Number(value) > 0 ? [`${percent(Number(value), 0)} ${name === 'sample' ? 'of them' : 'for validation'}`] : [];
    return [`${name.replaceAll('_', ' ')} ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`];
  });
  return words.join(', ') || 'everything that was answered';
}

function VersionPanels({ dataset, version }: { dataset: Dataset; version: DatasetVersion }) {
  const counts = version.counts, path = { name: dataset.name, number: String(version.number) };
  const rows = useResource(`dataset-rows|${dataset.name}|${version.number}|${version.status}|${version.rows}`, (signal) => get('GET /datasets/{name}/versions/{number}/rows', { path, query: { limit: 20 }, signal }));
  const facts: [string, string][] = [
    ...Object.entries(counts.splits ?? {}).map(([name, number]): [string, string] => [name, plural(number, 'row')]),
    ...Object.entries(counts.outputs ?? {}).map(([name, number]): [string, string] => [`from the ${name}`, plural(number, 'row')]),
    ...Object.entries(counts.formats ?? {}).map(([name, number]): [string, string] => [`can be written as ${name}`, plural(number, 'row')]),
  ];
  const left: [string, number][] = [...Object.entries(counts.skipped ?? {}), ...Object.entries(counts.left_out ?? {}).flatMap(([format, reasons]) => Object.entries(reasons).map(([reason, number]): [string, number] => [`${format}: ${reason}`, number]))];
  return (
    <>
      {version.error && <p class="banner">{version.error}</p>}
      <div class="columns even">
        <section class="panel">
          <h2>Version {version.number}</h2>
          <dl class="facts">
            <dt>Rows</dt><dd>{count(version.rows)} of {plural(version.examined, 'request')} that matched{version.erased > 0 && `, ${count(version.erased)} erased since`}</dd>
            {facts.map(([name, text]) => <><dt>{name}</dt><dd>{text}</dd></>)}
          </dl>
          {version.status === 'complete' && mayAnywhere('records:content') && version.rows > 0 && (
            <p class="actions">{Object.entries(counts.formats ?? {}).filter(([, number]) => number > 0).map(([format]) => <a key={format} class="button small" download href={apiAddress('/datasets/{name}/versions/{number}/export', path, { format })}>Export as {format}</a>)}</p>
          )}
        </section>
        <section class="panel">
          <h2>Left out</h2>
          {left.length ? <dl class="facts">{left.map(([reason, number]) => <><dt>{reason.replaceAll('_', ' ')}</dt><dd>{count(number)}</dd></>)}</dl> : <p class="note">Nothing: every request that matched is a row.</p>}
        </section>
      </div>
      <Loaded from={rows} lines={5}>
        {(page) => (page.data.length === 0 ? <></> : (
          <section class="panel flush">
            <div class="panel-head"><h2>Rows</h2><p class="note">the first {count(page.data.length)} of {compact(version.rows)}</p></div>
            <div class="scroll" tabIndex={0} role="region" aria-label="Rows">
              <table class="rows list cards still">
                <thead><tr><th scope="col" class="n">Row</th><th scope="col">Request</th><th scope="col">Model</th><th scope="col">Team</th><th scope="col">Content</th><th scope="col">Split</th><th scope="col">Output</th></tr></thead>
                <tbody>{page.data.map((each) => <tr key={each.number}><td class="n" data-name="row">{count(each.number)}</td><th scope="row" class="full"><a class="mono" href={to('/requests', { id: each.inference_id, range: '90d' })}><When at={each.received_at} words={moment(each.received_at)} /></a></th><td class="preview"><Inline text={each.function ?? each.model} />{each.variant && <span class="tag">{each.variant}</span>}</td><td>{each.team}</td><td>{each.content}</td><td>{each.split ?? <span class="dim">–</span>}</td><td>{each.output} {Object.keys(each.left_out_of).length > 0 && <span class="tag warn">not as {Object.keys(each.left_out_of).join(', ')}</span>}</td></tr>)}</tbody>
              </table>
            </div>
          </section>
        ))}
      </Loaded>
    </>
  );
}

function NewVersion({ name, newest }: { name: string; newest: DatasetVersion | undefined }) {
  const path = { name }, back = to(`/datasets/${encodeURIComponent(name)}`);
  return (
    <BodyForm
      key={newest?.number ?? 0}
      operation="POST /datasets/{name}/versions"
      title={`New version of ${name}`}
      act="Build it"
      first={['selection']}
      start={{ selection: newest?.selection ?? {} }}
      back={back}
      run={async (draft, dryRun) => {
        const made = (await call('POST /datasets/{name}/versions', { path, body: draft as unknown as Operations['POST /datasets/{name}/versions']['body'], query: { dry_run: dryRun } })).data;
        if ('changes' in made) return made;
        forgetAll();
        toast(`Version ${made.number} is being built`);
        go(back);
        return null;
      }}
    />
  );
}
