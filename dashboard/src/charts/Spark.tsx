/** The course of a number, under it. Its exact values are in the chart below. */
import { scale } from './scale';

const WIDTH = 132, HEIGHT = 32, MOST = 48;

export function Spark({ values, colour }: { values: number[]; colour: string }) {
  const points = thinned(values);
  if (points.length < 2) return <svg class={`spark ${colour}`} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true" />;
  const low = Math.min(...points), high = Math.max(...points);
  const x = scale(0, points.length - 1, 0, WIDTH), y = scale(Math.min(low, high * 0.6), high || 1, HEIGHT - 3, 4);
  const course = points.map((value, index) => `${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join('L');
  return (
    <svg class={`spark ${colour}`} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <path class="fill" d={`M0 ${HEIGHT}L${course}L${WIDTH} ${HEIGHT}Z`} />
      <path class="stroke" d={`M${course}`} />
    </svg>
  );
}

function thinned(values: number[]): number[] {
  const size = Math.max(1, Math.ceil(values.length / MOST)), found: number[] = [];
  for (let start = 0; start < values.length; start += size) {
    const part = values.slice(start, start + size);
    found.push(part.reduce((a, b) => a + b, 0) / part.length);
  }
  return found;
}
