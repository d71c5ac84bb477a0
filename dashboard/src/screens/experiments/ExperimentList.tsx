/** Experiments with their verdicts, the running ones first. */
import { get } from '../../api';
import { ago, count, moment } from '../../format';
import type { ListedExperiment } from '../../generated/api';
import { Head, When } from '../../parts/Head';
import { Empty, Loaded } from '../../parts/States';
import { Snippet } from '../../parts/Snippet';
import { useResource } from '../../resource';
import { here, place, to } from '../../router';
import { session } from '../../session';
import { VERDICTS } from './verdict';

const RANK = { running: 0, draft: 1, ended: 2 };

export function ExperimentList() {
  const status = place.value.query.get('status');
  const found = useResource(`experiments|${session.value?.id}`, (signal) => get('GET /experiments', { query: { limit: 100, sort: '-created_at', verdicts: true }, signal }));
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

function Row({ row }: { row: ListedExperiment }) {
  const result = row.result, verdict = result && VERDICTS[result.verdict];
  return (
    <tr>
      <th scope="row" class="full"><a href={to(`/experiments/${encodeURIComponent(row.name)}`)}>{row.name}</a></th>
      <td><span class={`tag${row.status === 'running' ? ' ok' : ''}`}>{row.status}</span></td>
      <td>{verdict ? <span class={`tag ${verdict.tone}`}>{verdict.word}</span> : <span class="dim">–</span>}</td>
      <td class="full conclusion">{result ? <>{result.conclusion} <span class="dim">{count(result.units)} of {count(result.planned_units)} units</span></> : <span class="dim">{row.started_at ? 'Its results are not read yet: load the page again.' : 'It has not begun.'}</span>}</td>
      <td>{row.arms.join(', ')}</td>
      <td>{row.unit}</td>
      <td>{row.started_at ? <When at={row.started_at} words={ago(row.started_at)} /> : <span class="dim">made {moment(row.created_at)}</span>}</td>
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
