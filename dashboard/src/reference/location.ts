/** Where the reader is, by the fragment of the address: `op-ID`, `tag-NAME`, `schema-NAME`, `schemas`, or a part of the guide. */
import { signal } from '@preact/signals';

export const anchor = signal(read());
export const searched = signal('');

function read(): string {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return '';
  }
}

export function startFollowing() {
  addEventListener('hashchange', () => {
    searched.value = '';
    anchor.value = read();
  });
}

/** Scrolls to an element once it is shown, and gives it the focus, so that a reader goes on from there. */
export function arriveAt(id: string) {
  const element = document.getElementById(id);
  if (!element) return;
  element.scrollIntoView({ block: 'start' });
  const target = element.querySelector<HTMLElement>('summary') ?? element.closest<HTMLElement>('h2, h3') ?? element;
  if (target.tagName !== 'SUMMARY' && !target.hasAttribute('tabindex')) target.tabIndex = -1;
  target.focus({ preventScroll: true });
}
