/** Quantities over time as lines; a gap is where there was nothing to measure. */
import { TimeAxis, ValueAxis } from './Axes';
import { scale, ticks, timeTicks } from './scale';

export interface Line {
  name: string;
  colour: string;
  values: (number | null)[];
}

const HEIGHT = 214, BOTTOM = 26;

export function Lines(props: { width: number; times: number[]; step: number; lines: Line[]; label: string; text: (value: number) => string }) {
  const { width, times, lines } = props, left = 58;
  if (!times.length) return null;
  const highest = Math.max(...lines.flatMap((line) => line.values.map((value) => value ?? 0)), 1e-9);
  const x = scale(times[0]!, times.at(-1)! + props.step, left, width), y = scale(0, highest * 1.08, HEIGHT - BOTTOM, 8);
  return (
    <svg width={width} height={HEIGHT} role="img" aria-label={props.label}>
      <ValueAxis values={ticks(0, highest * 1.05, 4)} y={y} left={left} width={width} text={props.text} />
      {lines.map((line) => <path key={line.name} class={`line ${line.colour}`} d={path(times, line.values, props.step, x, y)} />)}
      <TimeAxis ticks={timeTicks(times[0]!, times.at(-1)! + props.step, width - left)} x={x} y={HEIGHT - 8} left={left} width={width} />
    </svg>
  );
}

function path(times: number[], values: (number | null)[], step: number, x: (at: number) => number, y: (value: number) => number): string {
  let drawn = '', isDown = false;
  values.forEach((value, index) => {
    if (value === null) {
      isDown = false;
      return;
    }
    const at = x(times[index]! + step / 2).toFixed(1), height = y(value).toFixed(1);
    drawn += `${isDown ? 'L' : 'M'}${at} ${height}`;
    // A point alone would be no line at all.
    if (!isDown && (values[index + 1] ?? null) === null) drawn += `h0.01`;
    isDown = true;
  });
  return drawn;
}
