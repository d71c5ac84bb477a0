/**
 * What is tried: kept while the page is open, and stored nowhere. The models, the key's public part and the parameters are in the address;
 * what is written is not, as links are shown to others.
 */
import { signal } from '@preact/signals';
import { ApiError } from '../../api';
import { place } from '../../router';
import { begun, stream } from './chat';
import type { Answer, Content, Message } from './chat';

export interface Turn {
  /** What was sent: a message, or results of the calls before it. */
  sent: Message[];
  answer: Answer;
}

export type Side = 0 | 1;

export interface Draft {
  system: string;
  text: string;
  images: { name: string; url: string }[];
  tools: string;
  schema: string;
  more: string;
}

const EMPTY: Draft = { system: '', text: '', images: [], tools: '', schema: '', more: '' };

export const draft = signal<Draft>(EMPTY);
export const turns = signal<[Turn[], Turn[]]>([[], []]);
const running: [AbortController | null, AbortController | null] = [null, null];
let owner: string | undefined;

export const write = (values: Partial<Draft>) => (draft.value = { ...draft.value, ...values });

/** What somebody else's session wrote here is gone. */
export function startFor(session: string | undefined) {
  if (owner === session) return;
  if (owner !== undefined) {
    stop();
    draft.value = EMPTY;
    turns.value = [[], []];
  }
  owner = session;
}

export const setting = (name: string) => place.value.query.get(name) ?? '';
export const modelOf = (side: Side) => setting(side === 0 ? 'model' : 'with');
export const isComparing = () => setting('compare') !== '' || setting('with') !== '';
export const isBusy = (side: Side) => ['waiting', 'writing'].includes(turns.value[side].at(-1)?.answer.state ?? '');

/** A field of the form whose text is no request, as the API would say it. */
const refused = (param: string, message: string) => new ApiError(0, message, null, param, null, null);

function parsed(param: string, text: string, isList: boolean): unknown {
  if (!text.trim()) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (fault) {
    throw refused(param, `This is no JSON: ${(fault as Error).message}.`);
  }
  if (Array.isArray(value) !== isList || typeof value !== 'object' || value === null) throw refused(param, isList ? 'This must be a JSON array of tools.' : 'This must be a JSON object.');
  return value;
}

/** The request as this side would send it now, after the turns before. Throws an ApiError that names the field. */
export function requestOf(side: Side, next: Message[], before: Turn[] = turns.value[side]): Record<string, unknown> {
  const written = draft.value, number = (name: string) => (setting(name) === '' ? undefined : Number(setting(name)));
  const history = before.filter((turn) => turn.answer.state === 'done' || turn.answer.state === 'stopped').flatMap((turn) => [...turn.sent, messageOf(turn.answer)]);
  const schema = parsed('response_format', written.schema, false), tools = parsed('tools', written.tools, true);
  const body: Record<string, unknown> = {
    model: modelOf(side),
    messages: [...(written.system.trim() ? [{ role: 'system', content: written.system }] : []), ...history, ...next],
    temperature: number('temperature'),
    max_tokens: number('max_tokens'),
    reasoning_effort: setting('effort') || undefined,
    tools,
    tool_choice: tools && setting('tool_choice') ? setting('tool_choice') : undefined,
    response_format: schema && { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } },
    ...((parsed('more', written.more, false) as object | undefined) ?? {}),
  };
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));
}

function messageOf(answer: Answer): Message {
  const calls = answer.calls.map((each) => ({ id: each.id, type: 'function' as const, function: { name: each.name, arguments: each.text } }));
  return { role: 'assistant', content: answer.text || (calls.length ? null : answer.refusal), ...(calls.length ? { tool_calls: calls } : {}) };
}

/** The request that a program would send: what is written now, else the last one, else an example. */
export function requestToShow(side: Side): Record<string, unknown> {
  const next = question(), own = turns.value[side], last = own.at(-1);
  if (next.length || !last) return requestOf(side, next.length ? next : [{ role: 'user', content: 'Hello!' }]);
  return requestOf(side, last.sent, own.slice(0, -1));
}

export function question(): Message[] {
  const { text, images } = draft.value;
  if (!text.trim() && !images.length) return [];
  const content: Content = images.length ? [...(text.trim() ? [{ type: 'text' as const, text }] : []), ...images.map((each) => ({ type: 'image_url' as const, image_url: { url: each.url } }))] : text;
  return [{ role: 'user', content }];
}

/** The calls of tools that wait for results before this side can go on. */
export const openCalls = (side: Side) => {
  const last = turns.value[side].at(-1)?.answer;
  return last?.state === 'done' ? last.calls : [];
};

/** Begins a turn on a side, after those that there are; its stream fills the answer. */
export function ask(side: Side, messages: Message[]) {
  const body = requestOf(side, messages), abort = (running[side] = new AbortController()), answer = begun();
  setTurns(side, [...turns.value[side], { sent: messages, answer }]);
  let waits = false;
  const changed = () => {
    if (waits) return;
    waits = true;
    setTimeout(() => {
      waits = false;
      if (turns.value[side].some((turn) => turn.answer === answer)) turns.value = [...turns.value];
    }, 40);
  };
  void stream({ ...body, stream: true, stream_options: { include_usage: true } }, setting('as') || null, answer, abort.signal, changed);
}

/** The last turn once more, in the place of what came of it. */
export function again(side: Side) {
  const last = turns.value[side].at(-1)!;
  setTurns(side, turns.value[side].slice(0, -1));
  ask(side, last.sent);
}

export function stop() {
  for (const abort of running) abort?.abort();
}

export function clear() {
  stop();
  turns.value = [[], []];
}

function setTurns(side: Side, value: Turn[]) {
  turns.value = side === 0 ? [value, turns.value[1]] : [turns.value[0], value];
}
