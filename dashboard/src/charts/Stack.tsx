/** Amounts over time as stacked bars, each a link to the rows behind it. Drag over bars to choose their time. */
import { useRef, useState } from 'preact/hooks';
import { compact, dayAndClock } from '../format';
import { go, here } from '../router';
import { TimeAxis, ValueAxis } from './Axes';
import { scale, ticks, timeTicks } from './scale';

export interface Layer {
  name: string;
  colour: string;
  values: number[];
}

/** Something that happened, such as a change of the configuration. */
export interface Mark {
  at: number;
  text: string;
}

interface Bar {
  at: number;
  until: number;
  values: number[];
}

const HEIGHT = 214, BOTTOM = 26, MIN_BAR = 5, MARK_ROOM = 92, NEAR = 8;

export function Stack(props: {
  width: number;
  times: number[];
  step: number;
  layers: Layer[];
  label: string;
  completeUntil?: number | null;
  marks?: Mark[];
  text?: (value: number) => string;
  tick?: (value: number) => string;
}) {
  const { width, times, layers } = props, text = props.text ?? compact;
  const left = 52, group = Math.max(1, Math.ceil((times.length * MIN_BAR) / Math.max(width - left, 1)));
  const bars = grouped(times, props.step, layers, group);
  const [over, setOver] = useState<number | null>(null);
  const from = useRef<number | null>(null);
  const [brush, setBrush] = useState<[number, number] | null>(null);
  if (!bars.length) return null;
  const highest = Math.max(...bars.map((bar) => bar.values.reduce((a, b) => a + b, 0)), 1);
  const since = bars[0]!.at, until = bars.at(-1)!.until;
  const marks = joined((props.marks ?? []).filter((mark) => mark.at > since && mark.at < until), ((until - since) / width) * NEAR);
  const x = scale(since, until, left, width), y = scale(0, highest * 1.08, HEIGHT - BOTTOM, marks.length ? 24 : 8);
  const shown = over === null ? null : bars[over];

  const at = (event: PointerEvent) => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    const time = since + ((event.clientX - box.left - left) / (width - left)) * (until - since);
    return Math.max(0, Math.min(bars.length - 1, bars.findIndex((bar) => time < bar.until)));
  };
  const choose = (first: number, last: number) => {
    const [low, high] = first < last ? [first, last] : [last, first];
    go(here({ since: new Date(bars[low]!.at).toISOString(), until: new Date(bars[high]!.until).toISOString(), range: null }));
  };
  return (
    <div class="stack">
      <svg
        width={width}
        height={HEIGHT}
        role="img"
        aria-label={props.label}
        onPointerMove={(event) => {
          const index = at(event);
          setOver(index);
          if (from.current !== null) setBrush([from.current, index]);
        }}
        onPointerLeave={() => { setOver(null); setBrush(null); from.current = null; }}
        onPointerDown={(event) => { if (event.pointerType === 'mouse') from.current = at(event); }}
        onPointerUp={(event) => {
          const start = from.current;
          from.current = null;
          setBrush(null);
          if (start !== null && start !== at(event)) choose(start, at(event));
        }}
      >
        <ValueAxis values={ticks(0, highest * 1.05, 4)} y={y} left={left} width={width} text={props.tick ?? text} />
        {brush && <rect class="brush" x={x(bars[Math.min(...brush)]!.at)} width={x(bars[Math.max(...brush)]!.until) - x(bars[Math.min(...brush)]!.at)} y={4} height={HEIGHT - BOTTOM - 4} />}
        {shown && <rect class="hover" x={x(shown.at)} width={x(shown.until) - x(shown.at)} y={4} height={HEIGHT - BOTTOM - 4} />}
        {bars.map((bar) => {
          const open = props.completeUntil != null && bar.until > props.completeUntil;
          const wide = Math.max(1, x(bar.until) - x(bar.at) - 1.5);
          let below = 0;
          return bar.values.map((value, index) => {
            const top = y(below + value), bottom = y(below);
            below += value;
            return value > 0 && <rect key={`${bar.at}-${index}`} class={`${layers[index]!.colour}${open ? ' open' : ''}`} x={x(bar.at)} width={wide} y={top} height={Math.max(0.8, bottom - top)} />;
          });
        })}
        {marks.map((mark, index) => <MarkLine key={`${mark.at}-${mark.text}`} mark={mark} at={x(mark.at)} after={(index + 1 < marks.length ? x(marks[index + 1]!.at) : width) - x(mark.at)} before={x(mark.at) - (index > 0 ? x(marks[index - 1]!.at) + MARK_ROOM : left)} />)}
        <TimeAxis ticks={timeTicks(since, until, width - left)} x={x} y={HEIGHT - 8} left={left} width={width} />
      </svg>
      <p class="readout" aria-hidden="true">
        {shown ? (
          <>
            <b>{dayAndClock(shown.at)}</b>
            {layers.map((layer, index) => <span key={layer.name}><i class={`swatch ${layer.colour}`} />{layer.name} {text(shown.values[index]!)}</span>)}
          </>
        ) : (
          <span class="dim">Drag over the chart to look at a part of the time</span>
        )}
      </p>
    </div>
  );
}

/** In order of time; those too near each other to be told apart are one. */
function joined(marks: Mark[], near: number): Mark[] {
  const found: (Mark & { number: number })[] = [];
  for (const mark of [...marks].sort((a, b) => a.at - b.at)) {
    const last = found.at(-1);
    if (last && mark.at - last.at < near) {
      last.number++;
      last.text = `${last.number} changes`;
    } else found.push({ ...mark, number: 1 });
  }
  return found;
}

/** Its words are shown where there is room for them; else its line says that there was something. */
function MarkLine({ mark, at, after, before }: { mark: Mark; at: number; after: number; before: number }) {
  const words = mark.text.length > 16 ? `${mark.text.slice(0, 15)}…` : mark.text;
  return (
    <g class="mark">
      <title>{`${dayAndClock(mark.at)}: ${mark.text}`}</title>
      <line x1={at} x2={at} y1={4} y2={HEIGHT - BOTTOM} />
      {after > MARK_ROOM ? <text x={at + 5} y={13}>{words}</text> : before > MARK_ROOM && <text x={at - 5} y={13} text-anchor="end">{words}</text>}
    </g>
  );
}

function grouped(times: number[], step: number, layers: Layer[], size: number): Bar[] {
  const bars: Bar[] = [];
  for (let start = 0; start < times.length; start += size) {
    const end = Math.min(start + size, times.length);
    const values = layers.map((layer) => layer.values.slice(start, end).reduce((a, b) => a + b, 0));
    bars.push({ at: times[start]!, until: times[end - 1]! + step, values });
  }
  return bars;
}
