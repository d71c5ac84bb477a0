/** Metrics as a forest: those of one unit share an axis, as only they can be compared by eye. */
import { Figure } from '../../charts/Figure';
import { Forest } from '../../charts/Forest';
import type { ForestRow } from '../../charts/Forest';
import { count, percent } from '../../format';
import type { ExperimentResults } from '../../generated/api';
import { differenceText, inUnit, toneOf } from './verdict';
import type { MetricResult } from './verdict';

interface Props {
  results: ExperimentResults;
  metrics: MetricResult[];
  title: string;
  note: string;
  limits: Record<string, number>;
}

export function MetricsForest(props: Props) {
  if (!props.metrics.length) return null;
  const measured = props.metrics.filter(isMeasured), waiting = props.metrics.filter((each) => !isMeasured(each));
  const units = [...new Set(measured.map((each) => each.unit))];
  return (
    <div class="rows-of">
      {units.map((unit, index) => <OneUnit key={unit} {...props} metrics={measured.filter((each) => each.unit === unit)} title={units.length > 1 ? `${props.title}: ${NAMES[unit] ?? unit}` : props.title} note={index === 0 ? props.note : ''} />)}
      {waiting.length > 0 && (
        <section class="panel">
          <h2>Not measured yet</h2>
          <dl class="facts">{waiting.map((each) => <><dt>{each.metric}{each.primary && ' · decides'}</dt><dd class="dim">{each.comparisons.find((one) => one.reason)?.reason ?? 'no unit of both arms is complete'}</dd></>)}</dl>
        </section>
      )}
    </div>
  );
}

const isMeasured = (metric: MetricResult) => metric.comparisons.some((each) => each.difference !== null && each.interval?.low != null && each.interval.high != null);

const NAMES: Record<string, string> = { 'share of units': 'shares', 'US dollars': 'cost', seconds: 'time', tokens: 'tokens', value: 'values' };

function OneUnit({ results, metrics, title, note, limits }: Props) {
  const rows: ForestRow[] = metrics.flatMap((metric) => {
    const control = metric.arms.find((each) => each.arm === results.control);
    return metric.comparisons.flatMap((each): ForestRow[] => {
      const low = each.interval?.low ?? null, high = each.interval?.high ?? null;
      if (each.difference === null || low === null || high === null) return [];
      const value = metric.arms.find((arm) => arm.arm === each.arm)?.value ?? null;
      const several = metric.comparisons.length > 1 ? ` · ${each.arm}` : '';
      return [{ name: `${metric.metric}${metric.primary ? ' · decides' : several}`, detail: `${inUnit(metric, control?.value ?? null)} → ${inUnit(metric, value)}${metric.primary ? several : ''}`, difference: each.difference, low, high, limit: limits[metric.metric] != null ? limits[metric.metric]! * (metric.optimize === 'max' ? -1 : 1) : null, tone: toneOf(each), value: differenceText(metric, each.difference), verdict: each.verdict }];
    });
  });
  return (
    <Figure
      title={title}
      note={note}
      numbers={{
        head: ['Metric', 'Arm', 'Units', 'Value', 'Difference', 'From', 'To', 'Verdict'],
        rows: metrics.flatMap((metric) => metric.comparisons.map((each) => [metric.metric, each.arm, count(each.units), inUnit(metric, metric.arms.find((arm) => arm.arm === each.arm)?.value ?? null), differenceText(metric, each.difference), differenceText(metric, each.interval?.low ?? null), differenceText(metric, each.interval?.high ?? null), each.verdict + (each.lift !== null ? ` (${percent(each.lift)})` : '')])),
      }}
    >
      {(width) => <Forest width={width} rows={rows} text={(value) => differenceText(metrics[0]!, value)} label={`Differences from ${results.control}: ${rows.map((row) => `${row.name} ${row.value}, ${row.verdict}`).join('; ')}`} />}
    </Figure>
  );
}
