/** What may be concluded of an experiment, for the eye: a word, a tone and the sentence that the API gives. */
import { percent, signed } from '../../format';
import type { ArmComparison, ExperimentResults, Operations } from '../../generated/api';

export type Results = Operations['GET /experiments/{name}/results']['answer'];
export type MetricResult = ExperimentResults['metrics'][number];
export type Tone = 'good' | 'harm' | 'open';

export interface Verdict {
  word: string;
  tone: Tone;
}

export function primaryOf(results: ExperimentResults): MetricResult | null {
  return results.metrics.find((each) => each.primary) ?? results.metrics[0] ?? null;
}

/** Read of the deciding metric, and of every other for harm. */
export function verdictOf(results: ExperimentResults): Verdict {
  if (results.sample_ratio.mismatch) return { word: 'broken', tone: 'harm' };
  const harmed = results.metrics.flatMap((metric) => metric.comparisons.filter((each) => each.verdict === 'worse').map((each) => ({ metric, arm: each.arm })));
  const primary = primaryOf(results), verdicts = primary?.comparisons.map((each) => each.verdict) ?? [];
  if (harmed.some(({ metric }) => metric === primary)) return { word: 'harmful', tone: 'harm' };
  if (verdicts.includes('better')) return harmed.length ? { word: 'better, and worse elsewhere', tone: 'harm' } : { word: 'better', tone: 'good' };
  if (harmed.length) return { word: 'harmful', tone: 'harm' };
  if (verdicts.length && verdicts.every((each) => each === 'equal')) return { word: 'equal', tone: 'open' };
  if (verdicts.includes('needs a cap')) return { word: 'needs a cap', tone: 'open' };
  return { word: verdicts.includes('too early') ? 'too early' : 'keep running', tone: 'open' };
}

export function toneOf(comparison: ArmComparison): Tone {
  return comparison.verdict === 'better' ? 'good' : comparison.verdict === 'worse' ? 'harm' : 'open';
}

/** A value of a metric, in its unit. */
export function inUnit(metric: MetricResult, value: number | null): string {
  if (value === null) return '–';
  switch (metric.unit) {
    case 'share of units':
      return percent(value, 1);
    case 'US dollars':
      return `$${value < 0.1 ? value.toPrecision(3) : value.toFixed(2)}`;
    case 'seconds':
      return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(2)} s`;
    case 'tokens':
      return `${value.toFixed(value < 100 ? 1 : 0)} tokens`;
    default:
      return String(Number(value.toPrecision(3)));
  }
}

/** A difference of a metric: in points for shares, relative for amounts, where it is known so. */
export function differenceText(metric: MetricResult, value: number | null): string {
  if (value === null) return '–';
  if (metric.unit === 'share of units') return `${signed(value * 100, 1)} pt`;
  const sign = value > 0 ? '+' : value < 0 ? '−' : '';
  return sign + inUnit(metric, Math.abs(value));
}
