/** Short words about what was done. */
import { signal } from '@preact/signals';

const shown = signal<{ id: number; text: string }[]>([]);
let last = 0;

export function toast(text: string) {
  const id = ++last;
  shown.value = [...shown.value.slice(-2), { id, text }];
  setTimeout(() => (shown.value = shown.value.filter((each) => each.id !== id)), 5000);
}

export function Toasts() {
  return <div class="toasts" role="status" aria-live="polite">{shown.value.map((each) => <p class="toast" key={each.id}>{each.text}</p>)}</div>;
}

export async function copy(text: string, what: string) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} copied`);
  } catch {
    toast('This browser does not let the page copy: select the text instead');
  }
}
