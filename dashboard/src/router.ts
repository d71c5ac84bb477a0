/** The address is the state: the view, its filters, the scope and the time range. Links are ordinary links. */
import { signal } from '@preact/signals';

const BASE = '/dashboard';

export interface Place {
  path: string;
  query: URLSearchParams;
}

export const place = signal<Place>(read());

function read(): Place {
  const path = location.pathname.slice(BASE.length).replace(/\/+$/, '') || '/';
  return { path, query: new URLSearchParams(location.search) };
}

/** What every view keeps: the team, and the time range. */
const SCOPE = ['team', 'range', 'since', 'until'] as const;

type Values = Record<string, string | number | null | undefined | readonly string[]>;

/** The address of a view, with the scope in force. */
export function to(path: string, values: Values = {}): string {
  const query = new URLSearchParams();
  for (const name of SCOPE) for (const value of place.value.query.getAll(name)) query.append(name, value);
  return BASE + (path === '/' ? '' : path) + written(apply(query, values));
}

/** The address of this view with other values; null takes one away. */
export function here(values: Values): string {
  return BASE + (place.value.path === '/' ? '' : place.value.path) + written(apply(new URLSearchParams(place.value.query), values));
}

function apply(query: URLSearchParams, values: Values): URLSearchParams {
  for (const [name, value] of Object.entries(values)) {
    query.delete(name);
    if (Array.isArray(value)) for (const each of value) query.append(name, each);
    else if (value != null && value !== '') query.set(name, String(value));
  }
  return query;
}

const written = (query: URLSearchParams) => {
  const text = query.toString().replaceAll('%2F', '/').replaceAll('%3A', ':');
  return text ? `?${text}` : '';
};

export function go(address: string, options: { replace?: boolean; keepScroll?: boolean } = {}) {
  const before = place.value.path;
  history[options.replace ? 'replaceState' : 'pushState'](null, '', address);
  place.value = read();
  if (place.value.path !== before && !options.keepScroll) {
    scrollTo(0, 0);
    document.getElementById('main')?.focus({ preventScroll: true });
  }
}

export function startRouting() {
  addEventListener('popstate', () => (place.value = read()));
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest('a');
    if (!link || link.target || link.origin !== location.origin || link.hasAttribute('download')) return;
    if (link.pathname !== BASE && !link.pathname.startsWith(BASE + '/')) return;
    event.preventDefault();
    go(link.href);
  });
}

export const value = (name: string) => place.value.query.get(name);
