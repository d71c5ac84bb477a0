/** The admin API: one typed call for every operation. The browser sends the session's cookie; no script ever has a key. */
import { signal } from '@preact/signals';
import type { Operations } from './generated/api';

const BASE = '/admin/v1';

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code: string | null,
    readonly param: string | null,
    readonly requestId: string | null,
    readonly retryAfterS: number | null,
  ) {
    super(message);
  }
}

/** Becomes true when the API says that nobody is signed in (any more). */
export const signedOut = signal(false);
/** Counts sign-ins: what failed for want of one is asked again. */
export const signIns = signal(0);

type Query = Record<string, string | number | boolean | null | undefined | readonly string[]>;
type QueryOf<K extends keyof Operations> = { [P in keyof Operations[K]['query']]?: Operations[K]['query'][P] | null };

export interface Options<K extends keyof Operations> {
  path?: Record<string, string>;
  query?: QueryOf<K>;
  body?: Operations[K]['body'];
  ifMatch?: string | null;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

export interface Answer<T> {
  data: T;
  etag: string | null;
  applied: string | null;
}

export async function call<K extends keyof Operations>(operation: K, options: Options<K> = {}): Promise<Answer<Operations[K]['answer']>> {
  const [method, template] = operation.split(' ') as [string, string];
  const headers: Record<string, string> = { accept: 'application/json', ...options.headers };
  let body: string | undefined;
  if (options.body !== undefined) {
    const isText = typeof options.body === 'string';
    headers['content-type'] = isText ? 'text/plain' : 'application/json';
    body = isText ? (options.body as string) : JSON.stringify(options.body);
  }
  if (options.ifMatch) headers['if-match'] = options.ifMatch;
  const address = apiAddress(template, options.path, options.query as Query);
  const response = await send(address, { method, headers, body: body ?? null, signal: options.signal ?? null, credentials: 'same-origin' });
  const type = response.headers.get('content-type') ?? '';
  const data = type.includes('json') ? await response.json() : await response.text();
  return { data, etag: response.headers.get('etag'), applied: response.headers.get('x-narthex-applied') };
}

export async function get<K extends keyof Operations>(operation: K, options: Options<K> = {}): Promise<Operations[K]['answer']> {
  return (await call(operation, options)).data;
}

export function apiAddress(template: string, path: Record<string, string> = {}, query: Query = {}): string {
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path[name] ?? ''));
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) for (const each of value) parameters.append(name, each);
    else if (value != null && value !== '') parameters.append(name, String(value));
  }
  const text = parameters.toString();
  return BASE + filled + (text ? `?${text}` : '');
}

export async function send(address: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address, init);
  } catch (fault) {
    if (fault instanceof DOMException && fault.name === 'AbortError') throw fault;
    throw new ApiError(0, 'The gateway cannot be reached from this browser. It may be restarting, or the network is away.', null, null, null, null);
  }
  if (response.ok) return response;
  if (response.status === 401) signedOut.value = true;
  throw await readError(response);
}

async function readError(response: Response): Promise<ApiError> {
  const text = await response.text();
  let message = `The gateway answered with ${response.status}.`, code: string | null = null, param: string | null = null;
  try {
    const error = JSON.parse(text).error;
    if (typeof error?.message === 'string') message = error.message;
    code = typeof error?.code === 'string' ? error.code : null;
    param = typeof error?.param === 'string' ? error.param : null;
  } catch {
    // A proxy in between answered: its page says nothing that helps.
  }
  const retry = Number(response.headers.get('retry-after'));
  return new ApiError(response.status, message, code, param, response.headers.get('x-request-id'), Number.isFinite(retry) && retry > 0 ? retry : null);
}
