/** Ctrl K: a view, a name of this company, or any id from a log or a header, found and opened. */
import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { get } from './api';
import { go, to } from './router';
import { isCaller, may, mayAnywhere } from './session';
import { VIEWS } from './views';

export const paletteShown = signal(false);

interface Found {
  name: string;
  detail: string;
  address: string;
}

const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;
const KEY = /^nx-[0-9a-f]{4,12}/i;
const TRACE = /^[0-9a-f]{32}$/i;

export function Palette() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState(''), [names, setNames] = useState<Found[]>([]), [chosen, setChosen] = useState(0);
  const close = () => (paletteShown.value = false);
  useEffect(() => {
    dialog.current!.showModal();
    return () => dialog.current?.close();
  }, []);
  useEffect(() => {
    const wanted = text.trim(), abort = new AbortController();
    setChosen(0);
    if (wanted.length < 2) {
      setNames([]);
      return;
    }
    const timer = setTimeout(() => void search(wanted, abort.signal).then((found) => !abort.signal.aborted && setNames(found)), 150);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [text]);
  const found = [...byId(text.trim()), ...views(text.trim()), ...names].slice(0, 12);
  const open = (each: Found | undefined) => {
    if (!each) return;
    close();
    go(each.address);
  };
  const keys = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step && found.length) {
      event.preventDefault();
      setChosen((chosen + step + found.length) % found.length);
    } else if (event.key === 'Enter') {
      event.preventDefault();
      open(found[chosen]);
    }
  };
  return (
    <dialog ref={dialog} class="palette" aria-label="Find" onClose={close} onClick={(event) => event.target === event.currentTarget && close()}>
      <input
        role="combobox"
        aria-label="Find a view, a name or an id"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found.length ? `palette-${chosen}` : undefined}
        placeholder="Paste any id, or type a name"
        value={text}
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={keys}
      />
      <ul id="palette-list" role="listbox" aria-label="Found">
        {found.map((each, index) => (
          <li key={each.address + each.name} id={`palette-${index}`} role="option" aria-selected={index === chosen}>
            <a href={each.address} tabIndex={-1} onClick={(event) => { event.preventDefault(); open(each); }}>
              <span>{each.name}</span>
              <span>{each.detail}</span>
            </a>
          </li>
        ))}
      </ul>
      {!found.length && <p class="none">Nothing has this name. Whole ids of requests, conversations and traces are opened, and key prefixes.</p>}
    </dialog>
  );
}

function views(text: string): Found[] {
  return VIEWS.filter((view) => view.seen() && view.name.toLowerCase().includes(text.toLowerCase())).map((view) => ({ name: view.name, detail: `G ${view.key.toUpperCase()}`, address: to(view.path) }));
}

/** What an id may be: its address asks the API, which knows. */
function byId(text: string): Found[] {
  const found: Found[] = [];
  if (isCaller()) return UUID.test(text) && text.includes('-') ? [{ name: 'Open the request', detail: `${text.slice(0, 22)}…`, address: to('/me', { id: text }) }] : [];
  const wide = { range: '90d', since: null, until: null };
  if (UUID.test(text) && text.includes('-')) {
    found.push({ name: 'Open the request', detail: text, address: to('/requests', { id: text }) });
    found.push({ name: 'Open the conversation', detail: text, address: to(`/conversations/${encodeURIComponent(text)}`) });
    found.push({ name: 'Requests with this x-request-id', detail: text, address: to('/requests', { request_id: text, ...wide }) });
  } else if (TRACE.test(text)) {
    found.push({ name: 'Requests of this trace', detail: text, address: to('/requests', { trace_id: text, ...wide }) });
  } else if (KEY.test(text)) {
    const prefix = text.slice(0, 15);
    found.push({ name: 'Open the key', detail: prefix, address: to(`/keys/${encodeURIComponent(prefix)}`) });
    found.push({ name: 'Requests with this key', detail: prefix, address: to('/requests', { key: prefix }) });
  } else if (text.length >= 3) {
    found.push({ name: `Requests of the end user ${text}`, detail: 'exact name', address: to('/requests', { end_user: text }) });
    found.push({ name: `Conversation ${text}`, detail: 'exact name', address: to(`/conversations/${encodeURIComponent(text)}`) });
  }
  return found.map((each) => ({ ...each, detail: each.detail.length > 24 ? `${each.detail.slice(0, 22)}…` : each.detail }));
}

async function search(text: string, signal: AbortSignal): Promise<Found[]> {
  const query = { search: text, limit: 4 };
  const questions: Promise<Found[]>[] = [];
  if (mayAnywhere('teams:read')) questions.push(get('GET /teams', { query, signal }).then((page) => page.data.map((each) => ({ name: each.name, detail: 'team', address: to(`/teams/${encodeURIComponent(each.name)}`) }))));
  if (mayAnywhere('keys:read')) questions.push(get('GET /keys', { query, signal }).then((page) => page.data.map((each) => ({ name: each.name || each.prefix, detail: `key of ${each.team}`, address: to(`/keys/${each.prefix}`) }))));
  if (may('config:read')) {
    questions.push(get('GET /models', { query, signal }).then((page) => page.data.map((each) => ({ name: each.name, detail: 'model', address: to(`/models/${encodeURIComponent(each.name)}`) }))));
    questions.push(get('GET /functions', { query, signal }).then((page) => page.data.map((each) => ({ name: each.name, detail: 'function', address: to(`/functions/${encodeURIComponent(each.name)}`) }))));
    questions.push(get('GET /limits', { query, signal }).then((page) => page.data.map((each) => ({ name: each.name, detail: 'limit', address: to('/limits', { tab: 'limits' }) }))));
  }
  const answers = await Promise.allSettled(questions);
  return answers.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
}
