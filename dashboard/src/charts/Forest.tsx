/** Differences with their intervals on one axis: the point, the interval, no difference, and a limit where there is one. */
import { scale, ticks } from './scale';

export interface ForestRow {
  name: string;
  detail: string;
  difference: number;
  low: number;
  high: number;
  limit: number | null;
  tone: 'good' | 'harm' | 'open';
  value: string;
  verdict: string;
}

const NARROW = 480;

export function Forest(props: { width: number; rows: ForestRow[]; text: (value: number) => string; label: string }) {
  const { width, rows } = props;
  const narrow = width < NARROW, left = narrow ? 6 : 158, right = narrow ? 6 : 132, height = narrow ? 64 : 46, top = 22;
  const reach = Math.max(...rows.flatMap((row) => [Math.abs(clip(row, row.low)), Math.abs(clip(row, row.high)), Math.abs(row.limit ?? 0)]), 1e-9) * 1.1;
  const lowest = Math.min(0, ...rows.map((row) => clip(row, row.low)), ...rows.map((row) => row.limit ?? 0)), highest = Math.max(0, ...rows.map((row) => clip(row, row.high)), ...rows.map((row) => row.limit ?? 0));
  const pad = (highest - lowest || reach) * 0.06;
  const x = scale(lowest - pad, highest + pad, left + 6, width - right - 6), bottom = top + height * rows.length + 24;
  const inside = (value: number) => Math.max(left, Math.min(width - right, x(value)));
  return (
    <svg width={width} height={bottom} role="img" aria-label={props.label}>
      {ticks(lowest - pad, highest + pad, narrow ? 4 : 5).map((value) => (
        <g key={value}>
          <line class={value === 0 ? 'zero' : 'grid'} x1={x(value)} x2={x(value)} y1={top - 6} y2={bottom - 20} />
          <text class="tick" x={x(value)} y={bottom - 6} text-anchor="middle">{props.text(value)}</text>
        </g>
      ))}
      <text class="tick" x={x(0)} y={11} text-anchor={x(0) > width - right - 40 ? 'end' : x(0) < left + 40 ? 'start' : 'middle'}>no difference</text>
      {rows.map((row, index) => {
        const y = top + height * index + (narrow ? 44 : height / 2);
        return (
          <g class={`interval ${row.tone}`} key={row.name}>
            <text class="row-name" x={narrow ? left : 0} y={narrow ? y - 19 : y - 2}>{cut(row.name, narrow ? 24 : 20)}</text>
            <text class="tick" x={narrow ? width - 2 : 0} y={narrow ? y - 19 : y + 14} text-anchor={narrow ? 'end' : 'start'}>{narrow ? `${row.value} · ${row.verdict}` : row.detail}</text>
            {row.limit !== null && <line class="limit" x1={x(row.limit)} x2={x(row.limit)} y1={y - 13} y2={y + 13} />}
            <line class="whisker" x1={inside(row.low)} x2={inside(row.high)} y1={y} y2={y} />
            <line class="cap" x1={inside(row.low)} x2={inside(row.low)} y1={y - 5} y2={y + 5} />
            <line class="cap" x1={inside(row.high)} x2={inside(row.high)} y1={y - 5} y2={y + 5} />
            <circle cx={x(row.difference)} cy={y} r={5.5} />
            {!narrow && (
              <>
                <text class="row-name" x={width} y={y - 2} text-anchor="end">{row.value}</text>
                <text class="tick verdict-text" x={width} y={y + 14} text-anchor="end">{row.verdict}</text>
              </>
            )}
          </g>
        );
      })}
    </svg>
  );
}

const cut = (text: string, most: number) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** An interval much wider than the difference is drawn to the edge: else nothing else could be told apart. */
function clip(row: ForestRow, value: number): number {
  const most = Math.max(Math.abs(row.difference) * 8, Math.abs(row.limit ?? 0) * 2);
  return most > 0 ? Math.max(-most, Math.min(most, value)) : value;
}
