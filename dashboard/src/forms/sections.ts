/** What can be created and changed with a form: its operations, its key, and which fields come first. */
import { call } from '../api';
import type { Answer } from '../api';
import { BODIES, SCHEMAS } from '../generated/forms';
import type { DryRun, Operations } from '../generated/api';
import type { Schema } from './schema';
import type { Draft } from './values';

export type SectionName = 'providers' | 'models' | 'prices' | 'functions' | 'metrics';

export interface Section {
  noun: string;
  path: string;
  /** The fields that identify an entry, in the order of its path. */
  keys: string[];
  first: string[];
  /** The view that lists them, and that shows one. */
  list: [string, Record<string, string>];
  shown?: (keys: string[]) => string;
}

export const SECTIONS: Record<SectionName, Section> = {
  providers: { noun: 'provider', path: '/providers/{name}', keys: ['name'], first: ['name', 'adapter', 'base_url', 'credential'], list: ['/models', { tab: 'providers' }] },
  models: { noun: 'model', path: '/models/{name}', keys: ['name'], first: ['name', 'targets', 'fallbacks'], list: ['/models', {}], shown: ([name]) => `/models/${encodeURIComponent(name!)}` },
  prices: { noun: 'price', path: '/prices/{provider}/{model}/{since}', keys: ['provider', 'model', 'since'], first: ['provider', 'model', 'since', 'input', 'output', 'cached_input', 'source'], list: ['/models', { tab: 'prices' }] },
  functions: { noun: 'function', path: '/functions/{name}', keys: ['name'], first: ['name', 'type', 'description', 'variants', 'default'], list: ['/functions', {}], shown: ([name]) => `/functions/${encodeURIComponent(name!)}` },
  metrics: { noun: 'metric', path: '/metrics/{name}', keys: ['name'], first: ['name', 'kind', 'level', 'optimize', 'description'], list: ['/feedback', { tab: 'metrics' }] },
};

export const schemaOf = (operation: string): Schema => SCHEMAS[BODIES[operation]!]!;
export const createOf = (name: SectionName) => `POST /${name}`;

const keysOf = (section: Section, keys: string[]) => Object.fromEntries(section.keys.map((name, at) => [name, keys[at] ?? '']));
/** A price that always applies has no day, which its path says by a word. */
const ALWAYS = 'always';

export const keyOfEntry = (section: Section, entry: Draft) => section.keys.map((name) => String(entry[name] ?? ALWAYS));

/** The operations of all sections have one shape: its types are those of providers. */
type Put = Operations['PUT /providers/{name}']['body'];

export async function readEntry(name: SectionName, keys: string[], signal?: AbortSignal): Promise<{ entry: Draft; etag: string | null }> {
  const section = SECTIONS[name];
  const found = await call(`GET ${section.path}` as 'GET /providers/{name}', { path: keysOf(section, keys), ...(signal ? { signal } : {}) });
  return { entry: settable(name, found.data as unknown as Draft), etag: found.etag };
}

/** What a form may set of an entry: its times and the like are read-only. */
function settable(name: SectionName, entry: Draft): Draft {
  const known = schemaOf(createOf(name)).properties ?? {};
  return Object.fromEntries(Object.entries(entry).filter(([field]) => field in known));
}

export async function writeEntry(name: SectionName, keys: string[] | null, draft: Draft, etag: string | null, dryRun: boolean): Promise<DryRun & { warnings?: string[] }> {
  const section = SECTIONS[name], query = { dry_run: dryRun };
  let answer: Answer<unknown>;
  if (keys === null) answer = await call(createOf(name) as 'POST /providers', { body: draft as unknown as Operations['POST /providers']['body'], query });
  else {
    const body = Object.fromEntries(Object.entries(draft).filter(([field]) => !section.keys.includes(field)));
    answer = await call(`PUT ${section.path}` as 'PUT /providers/{name}', { path: keysOf(section, keys), body: body as unknown as Put, query, ifMatch: etag });
  }
  return answer.data as DryRun;
}

export function deleteEntry(name: SectionName, keys: string[], etag: string | null) {
  const section = SECTIONS[name];
  return call(`DELETE ${section.path}` as 'DELETE /providers/{name}', { path: keysOf(section, keys), ifMatch: etag });
}
