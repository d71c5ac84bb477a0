/** The lines and labels that charts share. */
import type { Scale } from './scale';

export function ValueAxis(props: { values: number[]; y: Scale; left: number; width: number; text: (value: number) => string }) {
  return (
    <>
      {props.values.map((value) => (
        <g key={value}>
          <line class="grid" x1={props.left} x2={props.width} y1={props.y(value)} y2={props.y(value)} />
          <text class="tick" x={props.left - 8} y={props.y(value) + 4} text-anchor="end">{props.text(value)}</text>
        </g>
      ))}
    </>
  );
}

export function TimeAxis(props: { ticks: { at: number; text: string }[]; x: Scale; y: number; left: number; width: number }) {
  return (
    <>
      <line class="axis" x1={props.left} x2={props.width} y1={props.y - 17.5} y2={props.y - 17.5} />
      {props.ticks.map((each) => {
        const x = props.x(each.at);
        const anchor = x > props.width - 24 ? 'end' : x < props.left + 20 ? 'start' : 'middle';
        return <text class="tick" key={each.at} x={Math.min(x, props.width)} y={props.y} text-anchor={anchor}>{each.text}</text>;
      })}
    </>
  );
}
