/** Datasets: recorded requests that were selected for training or evaluation. One of them with its versions. */
import { call, get } from '../../api';
import { count, moment, plural } from '../../format';
import type { Operations } from '../../generated/api';
import { BodyForm } from '../../forms/BodyForm';
import { Head, When } from '../../parts/Head';
import { Empty, Loaded } from '../../parts/States';
import { toast } from '../../parts/Toast';
import { forgetAll, useResource } from '../../resource';
import { go, place, to } from '../../router';
import { scopeTeam } from '../../scope';
import { mayAnywhere } from '../../session';
import { DatasetView } from './DatasetView';

export function Datasets() {
  const name = place.value.path.split('/')[2];
  if (name) return <DatasetView key={name} name={decodeURIComponent(name)} />;
  return place.value.query.has('new') && mayAnywhere('datasets:write') ? <NewDataset /> : <DatasetList />;
}

function DatasetList() {
  const found = useResource('datasets', (signal) => get('GET /datasets', { query: { limit: 200, sort: '-created_at' }, signal }));
  const may = mayAnywhere('datasets:write'), add = <a class="button primary" href={to('/datasets', { new: 1 })}>New dataset</a>;
  return (
    <>
      <Head title="Datasets" about="Recorded requests, selected for training and evaluation">{may && add}</Head>
      <Loaded from={found}>
        {(page) => (page.data.length === 0 ? <section class="panel"><Empty title="No dataset"><p>A dataset is a selection of recorded requests, as by their feedback, that is kept in versions and exported as lines for training.</p>{may && add}</Empty></section> : (
          <section class="panel flush">
            <div class="scroll" tabIndex={0} role="region" aria-label="Datasets">
              <table class="rows list cards still">
                <thead><tr><th scope="col">Dataset</th><th scope="col">What it is for</th><th scope="col">Team</th><th scope="col" class="n">Versions</th><th scope="col">Created</th><th scope="col">By</th></tr></thead>
                <tbody>{page.data.map((each) => (
                  <tr key={each.id}>
                    <th scope="row" class="full"><a href={to(`/datasets/${encodeURIComponent(each.name)}`)}>{each.name}</a></th>
                    <td class="preview full">{each.description ?? <span class="dim">–</span>}</td>
                    <td>{each.team ?? <span class="dim">all teams</span>}</td>
                    <td class="n" data-name="versions">{count(each.versions)}</td>
                    <td><When at={each.created_at} words={moment(each.created_at)} /></td>
                    <td>{each.created_by}</td>
                  </tr>
                ))}</tbody>
              </table>
            </div>
            {page.next && <p class="more"><span class="dim">The first {plural(page.data.length, 'dataset')}.</span></p>}
          </section>
        ))}
      </Loaded>
    </>
  );
}

function NewDataset() {
  const team = scopeTeam();
  return (
    <BodyForm
      operation="POST /datasets"
      title="New dataset"
      act="Create it"
      first={['name', 'description', 'team', 'selection']}
      start={{ ...(team ? { team } : {}), selection: {} }}
      back={to('/datasets')}
      run={async (draft, dryRun) => {
        const made = (await call('POST /datasets', { body: draft as unknown as Operations['POST /datasets']['body'], query: { dry_run: dryRun } })).data;
        if ('changes' in made) return made;
        forgetAll();
        toast(`${made.name} is created`);
        go(to(`/datasets/${encodeURIComponent(made.name)}`));
        return null;
      }}
    />
  );
}
