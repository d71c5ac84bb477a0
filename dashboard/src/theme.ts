/** Light or dark: the system's choice, unless the reader switches. */
import { signal } from '@preact/signals';

type Theme = 'light' | 'dark';

export const theme = signal<Theme | null>(null);

export function startTheme() {
  const stored = localStorage.getItem('narthex.theme');
  set(stored === 'light' || stored === 'dark' ? stored : null);
}

export function switchTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === 'dark';
  const next: Theme = dark ? 'light' : 'dark';
  localStorage.setItem('narthex.theme', next);
  set(next);
}

function set(next: Theme | null) {
  theme.value = next;
  if (next) document.documentElement.dataset['theme'] = next;
  else delete document.documentElement.dataset['theme'];
}
