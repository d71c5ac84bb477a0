/** How the interval of a difference narrowed over time; it holds at every point. */
import { TimeAxis, ValueAxis } from './Axes';
import { scale, ticks, timeTicks } from './scale';
import { day } from '../format';

export interface OverPoint {
  at: number;
  difference: number;
  low: number;
  high: number;
}

const HEIGHT = 232, BOTTOM = 26;

export function Over(props: { width: number; points: OverPoint[]; text: (value: number) => string; label: string }) {
  const { width, points } = props, left = 58;
  if (points.length < 2) return null;
  const last = points.at(-1)!, reach = Math.max(Math.abs(last.low), Math.abs(last.high), 1e-9) * 2.6;
  const clip = (value: number) => Math.max(-reach, Math.min(reach, value));
  const x = scale(points[0]!.at, last.at, left + 4, width - 10), y = scale(Math.min(0, ...points.map((p) => clip(p.low))), Math.max(0, ...points.map((p) => clip(p.high))), HEIGHT - BOTTOM, 8);
  const point = (p: OverPoint, value: number) => `${x(p.at).toFixed(1)} ${y(clip(value)).toFixed(1)}`;
  const band = `M${points.map((p) => point(p, p.high)).join('L')}L${[...points].reverse().map((p) => point(p, p.low)).join('L')}Z`;
  const since = points.find((p, index) => excludes(p) && points.slice(index).every(excludes));
  const lowest = Math.min(0, ...points.map((p) => clip(p.low))), highest = Math.max(0, ...points.map((p) => clip(p.high)));
  return (
    <svg width={width} height={HEIGHT} role="img" aria-label={props.label}>
      <ValueAxis values={ticks(lowest, highest, 4)} y={y} left={left} width={width} text={props.text} />
      <path class="band" d={band} />
      <path class="line c1" d={`M${points.map((p) => point(p, p.difference)).join('L')}`} />
      <line class="zero" x1={left} x2={width} y1={y(0)} y2={y(0)} />
      {since && (
        <g class="mark">
          <line x1={x(since.at)} x2={x(since.at)} y1={8} y2={HEIGHT - BOTTOM} />
          <text x={x(since.at) + (x(since.at) > width - 150 ? -6 : 6)} y={18} text-anchor={x(since.at) > width - 150 ? 'end' : 'start'}>excludes 0 since {day(since.at)}</text>
        </g>
      )}
      <circle class="dot" cx={x(last.at)} cy={y(clip(last.difference))} r={4.5} />
      <TimeAxis ticks={timeTicks(points[0]!.at, last.at, width - left)} x={x} y={HEIGHT - 8} left={left} width={width} />
    </svg>
  );
}

const excludes = (point: OverPoint) => point.low > 0 || point.high < 0;
