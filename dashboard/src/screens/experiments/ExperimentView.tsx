/** One experiment: the verdict first, then the metrics with their intervals, guardrails, arms, slices and the log. */
import { useState } from 'preact/hooks';
import { get } from '../../api';
import { ago, count, percent } from '../../format';
import type { ExperimentResults, ShownExperiment } from '../../generated/api';
import { Head, When } from '../../parts/Head';
import { Empty, Fault, Skeleton, Stale } from '../../parts/States';
import { useResource } from '../../resource';
import { to } from '../../router';
import { may } from '../../session';
import { Acts } from './Acts';
import { ArmsPanel } from './ArmsPanel';
import { LogPanel } from './LogPanel';
import { MetricsForest } from './MetricsForest';
import { PartsPanel } from './PartsPanel';
import { SeriesPanel } from './SeriesPanel';
import { inUnit, primaryOf, differenceText, panelTone } from './verdict';

export function ExperimentView({ name }: { name: string }) {
  const [round, setRound] = useState(0);
  const shown = useResource(`experiment|${name}|${round}`, (signal) => get('GET /experiments/{name}', { path: { name }, signal }));
  const results = useResource(shown.data && shown.data.status !== 'draft' ? `results|${name}|${round}` : null, (signal) => get('GET /experiments/{name}/results', { path: { name }, signal }));
  const experiment = shown.data;
  if (!experiment) return <><Head title={name} />{shown.error ? <Fault error={shown.error} retry={shown.reload} /> : <section class="panel"><Skeleton lines={8} /></section>}</>;
  const others = experiment.arms.filter((arm) => arm !== experiment.control);
  return (
    <>
      <Head
        title={experiment.name}
        tags={<span class={`tag${experiment.status === 'running' ? ' ok' : ''}`}>{experiment.status}{experiment.started_at && experiment.status === 'running' ? `, began ${ago(experiment.started_at)}` : ''}</span>}
        about={<>{others.join(', ')} against {experiment.control} · by {experiment.unit} · of the {experiment.section === 'functions' ? 'function' : 'model'} <a class="link" href={to(experiment.section === 'functions' ? `/functions/${experiment.owner}` : `/models/${experiment.owner}`)}>{experiment.owner}</a></>}
      >
        {may('config:write') && <Acts experiment={experiment} results={results.data ?? null} changed={() => setRound(round + 1)} />}
      </Head>
      {(experiment.warnings ?? []).map((each) => <p class="banner" key={each}>{each}</p>)}
      {experiment.status === 'draft' && <section class="panel"><Empty title="It has not begun"><p>Until it is started, every request is served as if there were no experiment.</p></Empty></section>}
      {results.error && !results.data && <Fault error={results.error} retry={results.reload} />}
      {results.error && results.data && <Stale error={results.error} retry={results.reload} />}
      {!results.data && results.loading && experiment.status !== 'draft' && <section class="panel"><Skeleton lines={8} /></section>}
      {results.data && <Results experiment={experiment} results={results.data} />}
      {!results.data && <LogPanel name={name} round={round} />}
    </>
  );
}

function Results({ experiment, results }: { experiment: ShownExperiment; results: ExperimentResults }) {
  const guarded = Object.keys(experiment.analysis.guardrails ?? {}).length > 0;
  return (
    <>
      <VerdictPanel results={results} />
      <div class="columns even">
        <MetricsForest results={results} metrics={results.metrics} title="Metrics" note={`Each arm minus ${results.control}, with its interval; filled where that excludes no difference.${guarded ? ' A red mark is the harm at which an arm is stopped.' : ''}`} limits={experiment.analysis.guardrails ?? {}} />
        <div class="rows-of">
          <SeriesPanel name={experiment.name} />
          <ArmsPanel experiment={experiment} results={results} />
          <LogPanel name={experiment.name} round={0} />
        </div>
      </div>
      <PartsPanel results={results} />
    </>
  );
}

function VerdictPanel({ results }: { results: ExperimentResults }) {
  const tone = panelTone(results), primary = primaryOf(results), best = primary?.comparisons.find((each) => each.verdict === 'better') ?? primary?.comparisons[0];
  const units = results.arms.reduce((sum, each) => sum + each.units, 0), open = results.arms.reduce((sum, each) => sum + each.open, 0);
  const control = primary?.arms.find((each) => each.arm === results.control), arm = primary?.arms.find((each) => each.arm === best?.arm);
  return (
    <section class={`panel verdict ${tone}`}>
      <div>
        <p class="note">What may be concluded</p>
        <h2>{results.conclusion}</h2>
        {primary && best && control && arm && arm.value !== null && (
          <p>
            {best.arm}: <b>{inUnit(primary, arm.value)}</b> against {inUnit(primary, control.value)} of {results.control} in <b>{primary.metric}</b>
            {best.interval?.low != null && best.interval.high != null && <>; the difference is between <b>{differenceText(primary, best.interval.low)}</b> and <b>{differenceText(primary, best.interval.high)}</b></>}.
          </p>
        )}
        <p class="note">This holds however often you look: an error has a chance of at most {percent(results.alpha, 0)}. Read <When at={results.read_at} words={ago(results.read_at)} />.</p>
      </div>
      <ul class="checks">
        <li class={results.sample_ratio.mismatch ? 'harm' : ''}><b>Sample ratio</b><span>{results.arms.map((each) => count(each.units)).join(' : ')}, {results.sample_ratio.mismatch ? 'not as set: something loses units' : 'as set'} (p = {results.sample_ratio.p.toFixed(2)})</span></li>
        <li class={units >= results.planned_units ? '' : 'open'}><b>Units</b><span>{count(units)} of {count(results.planned_units)} planned, {count(Math.round(results.units_per_day))} a day</span></li>
        <li class={open > 0 ? 'open' : ''}><b>Open</b><span>{open > 0 ? `${count(open)} units are not complete yet` : 'every unit is complete'}</span></li>
        {results.warnings.map((each) => <li class="open" key={each}><b>Note</b><span>{each}</span></li>)}
      </ul>
    </section>
  );
}
