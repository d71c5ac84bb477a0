/** Experiments with their verdicts, the running ones first. */
import { get } from '../../api';
import { ago, count, moment } from '../../format';
import type { ExperimentRow } from '../../generated/api';
import { Head, When } from '../../parts/Head';
import { Empty, Loaded } from '../../parts/States';
import { Snippet } from '../../parts/Snippet';
import { useResource } from '../../resource';
import { here, place, to } from '../../router';
import { session } from '../../session';
import { primaryOf, verdictOf } from './verdict';

const RANK = { running: 0, draft: 1, ended: 2 };

export function ExperimentList() {
  const status = place.value.query.get('status');
  const found = useResource(`experiments|${session.value?.id}`, (signal) => get('GET /experiments', { query: { limit: 100, sort: '-created_at' }, signal }));
  return (
    <>
      <Head title="Experiments" about="What may be concluded holds however often you look">
        <nav class="segments" aria-label="Which experiments">
          {[[null, 'All'], ['running', 'Running'], ['draft', 'Drafts'], ['ended', 'Ended']].map(([value, text]) => <a key={text} href={here({ status: value ?? null })} aria-current={status === value ? 'true' : undefined}>{text}</a>)}
        </nav>
      </Head>
      <Loaded from={found} lines={8}>
        {(page) => {
          const rows = page.data.filter((each) => !status || each.status === status).sort((a, b) => RANK[a.status] - RANK[b.status]);
          if (!page.data.length) return <None />;
          if (!rows.length) return <section class="panel"><Empty title={`No experiment is ${status === 'draft' ? 'a draft' : status}`} /></section>;
          return (
            <section class="panel flush">
              <div class="scroll" tabIndex={0} role="region" aria-label="Experiments">
                <table class="rows list cards">
                  <thead><tr><th scope="col">Name</th><th scope="col">Status</th><th scope="col">Verdict</th><th scope="col">Conclusion</th><th scope="col">Arms</th><th scope="col">Unit</th><th scope="col">Began</th></tr></thead>
                  <tbody>{rows.map((each) => <Row key={each.id} row={each} />)}</tbody>
                </table>
              </div>
            </section>
          );
        }}
      </Loaded>
    </>
  );
}

function Row({ row }: { row: ExperimentRow }) {
  const found = useResource(row.status === 'draft' ? null : `results|${row.name}`, (signal) => get('GET /experiments/{name}/results', { path: { name: row.name }, signal }));
  const verdict = found.data && verdictOf(found.data), primary = found.data && primaryOf(found.data);
  const units = found.data?.arms.reduce((sum, each) => sum + each.units, 0);
  return (
    <tr>
      <th scope="row" class="full"><a href={to(`/experiments/${encodeURIComponent(row.name)}`)}>{row.name}</a></th>
      <td><span class={`tag${row.status === 'running' ? ' ok' : ''}`}>{row.status}</span></td>
      <td>{verdict ? <span class={`tag ${verdict.tone === 'good' ? 'ok' : verdict.tone === 'harm' ? 'bad' : 'info'}`}>{verdict.word}</span> : <span class="dim">{row.status === 'draft' ? '–' : found.error ? 'not available' : '…'}</span>}</td>
      <td class="full conclusion">{found.data ? <>{found.data.conclusion}{units != null && <span class="dim"> {count(units)} units{primary ? `, by ${primary.metric}` : ''}</span>}</> : <span class="dim">{found.error?.message ?? ''}</span>}</td>
      <td>{row.arms.join(', ')}</td>
      <td>{row.unit}</td>
      <td>{row.started_at ? <When at={row.started_at} words={ago(row.started_at)} /> : <span class="dim">{row.created_at && `made ${moment(row.created_at)}`}</span>}</td>
    </tr>
  );
}

function None() {
  return (
    <section class="panel">
      <Empty title="No experiment yet">
        <p>An experiment splits a function's or a model's requests between arms. It is a part of their configuration:</p>
        <Snippet what="The configuration" text={'[functions.support.experiment]\nunit = "episode"\narms = { plain = 0.5, friendly = 0.5 }\n\n[functions.support.experiment.analysis]\nmetrics = ["solved"]'} />
      </Empty>
    </section>
  );
}
