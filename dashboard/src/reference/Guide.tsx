/** The guide, which the server has made: moved into the view that shows it, and its headings as contents. */
import { useEffect, useRef } from 'preact/hooks';
import { anchor, arriveAt } from './location';

export interface Heading {
  id: string;
  text: string;
}

const guide = document.getElementById('guide')!;
export const headings: Heading[] = [...guide.querySelectorAll('h2')].map((heading, index) => {
  heading.id ||= heading.querySelector('[id]')?.id ? `${heading.querySelector('[id]')!.id}-heading` : `guide-${index}`;
  return { id: heading.querySelector('[id]')?.id ?? heading.id, text: heading.textContent!.trim() };
});
for (const [index, table] of guide.querySelectorAll('table').entries()) {
  const box = document.createElement('div');
  box.className = 'scroll';
  box.tabIndex = 0;
  box.setAttribute('role', 'region');
  box.setAttribute('aria-label', `Table ${index + 1}`);
  table.replaceWith(box);
  box.append(table);
}
// A cell without a text is no header: a reader would announce nothing for its column.
for (const cell of guide.querySelectorAll('th:empty')) cell.replaceWith(document.createElement('td'));
for (const pre of guide.querySelectorAll('pre')) pre.tabIndex = 0;
guide.remove();

export const isOfGuide = (id: string) => id === 'guide' || (id !== '' && guide.querySelector(`#${CSS.escape(id)}`) !== null);

export function Guide() {
  const box = useRef<HTMLDivElement>(null), id = anchor.value;
  useEffect(() => {
    box.current!.append(guide);
    return () => guide.remove();
  }, []);
  useEffect(() => arriveAt(id === 'guide' ? 'guide' : id), [id]);
  return <div class="panel" ref={box} />;
}
