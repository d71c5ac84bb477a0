/** How the interval of the deciding metric narrowed, day by day. */
import { get } from '../../api';
import { Figure } from '../../charts/Figure';
import { Over } from '../../charts/Over';
import { count, day } from '../../format';
import { useResource } from '../../resource';
import { differenceText } from './verdict';

export function SeriesPanel({ name }: { name: string }) {
  const found = useResource(`series|${name}`, (signal) => get('GET /experiments/{name}/results/series', { path: { name }, signal }));
  const series = found.data;
  if (!series) return null;
  const points = series.data.flatMap((each) => (each.difference !== null && each.interval?.low != null && each.interval.high != null ? [{ at: Date.parse(each.at), difference: each.difference, low: each.interval.low, high: each.interval.high }] : []));
  if (points.length < 2) return null;
  const text = (value: number) => differenceText(series, value);
  return (
    <Figure
      title={`${series.metric}, as it narrowed`}
      note={`${series.arm} minus ${series.control} at the end of each day, with what is known now.`}
      numbers={{ head: ['Day', 'Units', 'Difference', 'From', 'To', 'Verdict'], rows: series.data.map((each) => [day(each.at), count(Object.values(each.units).reduce((a, b) => a + b, 0)), text(each.difference ?? 0), differenceText(series, each.interval?.low ?? null), differenceText(series, each.interval?.high ?? null), each.verdict]) }}
    >
      {(width) => <Over width={width} points={points} text={text} label={`The interval of ${series.metric} over ${points.length} days, now from ${text(points.at(-1)!.low)} to ${text(points.at(-1)!.high)}`} />}
    </Figure>
  );
}
