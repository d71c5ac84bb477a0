/** The frame of every chart: a caption that says its point, a legend in words, and its numbers as a table on demand. */
import type { ComponentChildren } from 'preact';
import { useWidth } from './scale';

export interface Legend {
  name: string;
  colour: string;
}

export interface Numbers {
  head: string[];
  rows: (string | number)[][];
}

export function Figure(props: {
  title: string;
  note?: ComponentChildren;
  legend?: Legend[];
  numbers?: Numbers;
  dimmed?: boolean;
  action?: ComponentChildren;
  children: (width: number) => ComponentChildren;
}) {
  const [ref, width] = useWidth();
  return (
    <figure class={`panel chart${props.dimmed ? ' dimmed' : ''}`}>
      <figcaption>
        <h2>{props.title}</h2>
        {props.note && <p class="note">{props.note}</p>}
      </figcaption>
      {props.legend && (
        <ul class="legend">
          {props.legend.map((each) => (
            <li key={each.name}><i class={`swatch ${each.colour}`} />{each.name}</li>
          ))}
        </ul>
      )}
      {props.action}
      <div ref={ref} class="plot">{width > 0 && props.children(width)}</div>
      {props.numbers && <NumbersTable title={props.title} numbers={props.numbers} />}
    </figure>
  );
}

function NumbersTable({ title, numbers }: { title: string; numbers: Numbers }) {
  return (
    <details class="numbers">
      <summary>Numbers</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label={`${title}, numbers`}>
        <table>
          <thead><tr>{numbers.head.map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
          <tbody>
            {numbers.rows.map((row) => (
              <tr key={String(row[0])}>{row.map((cell, index) => (index ? <td class="n">{cell}</td> : <th scope="row">{cell}</th>))}</tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
