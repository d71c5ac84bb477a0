/** A request of an operation with a reader's values: its address, headers and body, and the command that sends the same. */
import { skeleton } from './document';
import type { Operation, Parameter, Reference } from './document';

export interface Values {
  parameters: Record<string, string>;
  contentType: string | null;
  body: string;
}

export type Credential = 'session' | 'bearer' | 'node' | 'none';

const VARIABLES: Record<string, string> = { adminKey: 'NARTHEX_ADMIN_KEY', callerKey: 'NARTHEX_KEY' };

const keyOf = (parameter: Parameter) => `${parameter.in}:${parameter.name}`;

export const valueOf = (values: Values, parameter: Parameter) => values.parameters[keyOf(parameter)] ?? '';

export const withValue = (values: Values, parameter: Parameter, value: string): Values => ({ ...values, parameters: { ...values.parameters, [keyOf(parameter)]: value } });

/** What a form begins with. A change is only tried (`dry_run`) until its reader says otherwise. */
export function emptyValues(reference: Reference, operation: Operation): Values {
  const [type, content] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [null, null];
  const body = !content ? '' : type!.includes('json') ? JSON.stringify(content.example ?? skeleton(reference, content.schema), null, 2) : typeof content.example === 'string' ? content.example : '';
  const parameters: Record<string, string> = {};
  for (const each of operation.parameters ?? []) if (each.name === 'dry_run') parameters[keyOf(each)] = 'true';
  return { parameters, contentType: type, body };
}

/** The ways to be let in, the first one first. */
export function credentials(operation: Operation): Credential[] {
  const names = new Set(operation.security.flatMap((each) => Object.keys(each)));
  const found: Credential[] = [];
  if (names.has('sessionCookie')) found.push('session');
  if (names.has('adminKey') || names.has('callerKey')) found.push('bearer');
  if (names.has('nodeSecret')) found.push('node');
  return found.length ? found : ['none'];
}

export function addressOf(operation: Operation, values: Values): string {
  let path = operation.path;
  const query = new URLSearchParams();
  for (const each of operation.parameters ?? []) {
    const value = valueOf(values, each);
    if (each.in === 'path') path = path.replace(`{${each.name}}`, value ? encodeURIComponent(value) : `{${each.name}}`);
    else if (each.in === 'query' && value !== '') for (const one of value.split('\n')) query.append(each.name, one);
  }
  const text = query.toString();
  return path + (text ? `?${text}` : '');
}

export function headersOf(operation: Operation, values: Values): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const each of operation.parameters ?? []) if (each.in === 'header' && valueOf(values, each)) headers[each.name] = valueOf(values, each);
  if (values.contentType && values.body.trim()) headers['Content-Type'] = values.contentType;
  return headers;
}

/** The first required parameter that has no value. */
export const missing = (operation: Operation, values: Values) => (operation.parameters ?? []).find((each) => each.required && !valueOf(values, each)) ?? null;

/** The command names the variable that has the key, and never a key. `filled`: with the reader's values. */
export function writeCurl(operation: Operation, values: Values, filled: boolean): string {
  const shown = filled ? values : { ...values, parameters: {} };
  const address = (operation.elsewhere ?? location.origin) + decodeBraces(addressOf(operation, shown));
  const lines = [`curl ${operation.method === 'GET' ? '' : `-X ${operation.method} `}${quoted(address)}`];
  const names = operation.security.flatMap((each) => Object.keys(each)), variable = names.map((name) => VARIABLES[name]).find(Boolean);
  if (variable) lines.push(`-H "Authorization: Bearer $${variable}"`);
  else if (names.includes('nodeSecret')) lines.push('-u "node:$NARTHEX_NODE_SECRET"');
  for (const [name, value] of Object.entries(headersOf(operation, shown))) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (!filled && operation.parameters?.some((each) => each.name === 'If-Match')) lines.push("-H 'If-Match: *'");
  if (shown.body.trim()) lines.push(`-d ${quoted(compact(shown.body))}`);
  else if (operation.requestBody?.required) lines.push('-d @FILE');
  return lines.join(' \\\n  ');
}

const decodeBraces = (address: string) => address.replace(/\{(\w+)\}/g, (_, name: string) => name.toUpperCase());

const quoted = (text: string) => (/^[\w:/.?=&%@,+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function compact(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body));
  } catch {
    return body;
  }
}
