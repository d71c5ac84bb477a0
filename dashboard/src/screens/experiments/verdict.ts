/** What may be concluded of an experiment, for the eye: a word, a tone and the sentence that the API gives. */
import { percent, signed } from '../../format';
import type { ArmComparison, ExperimentResults, ExperimentStanding } from '../../generated/api';

export type MetricResult = ExperimentResults['metrics'][number];
export type Tone = 'good' | 'harm' | 'open';

/** The verdicts as the API gives them: of the deciding metric, and of every other for harm. */
export const VERDICTS: Record<ExperimentStanding['verdict'], { word: string; tone: 'ok' | 'bad' | 'info' | ''; panel: Tone }> = {
  winning: { word: 'winning', tone: 'ok', panel: 'good' },
  harmful: { word: 'harmful', tone: 'bad', panel: 'harm' },
  broken: { word: 'broken', tone: 'bad', panel: 'harm' },
  equivalent: { word: 'equal', tone: 'info', panel: 'open' },
  keep_running: { word: 'keep running', tone: 'info', panel: 'open' },
  cannot_tell: { word: 'cannot tell', tone: '', panel: 'open' },
};

export function primaryOf(results: ExperimentResults): MetricResult | null {
  return results.metrics.find((each) => each.primary) ?? results.metrics[0] ?? null;
}

/** Of one experiment, from its results: the colour of the panel that says what may be concluded. */
export function panelTone(results: ExperimentResults): Tone {
  const verdicts = results.metrics.flatMap((metric) => metric.comparisons.map((each) => each.verdict));
  if (results.sample_ratio.mismatch || verdicts.includes('worse')) return 'harm';
  return primaryOf(results)?.comparisons.some((each) => each.verdict === 'better') ? 'good' : 'open';
}

export function toneOf(comparison: ArmComparison): Tone {
  return comparison.verdict === 'better' ? 'good' : comparison.verdict === 'worse' ? 'harm' : 'open';
}

/** A value of a metric, in its unit. */
export function inUnit(metric: Pick<MetricResult, 'unit'>, value: number | null): string {
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
export function differenceText(metric: Pick<MetricResult, 'unit'>, value: number | null): string {
  if (value === null) return '–';
  if (metric.unit === 'share of units') return `${signed(value * 100, 1)} pt`;
  const sign = value > 0 ? '+' : value < 0 ? '−' : '';
  return sign + inUnit(metric, Math.abs(value));
}
