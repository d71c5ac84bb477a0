/** The OpenAPI document of this gateway, as the reference shows it: operations in groups, and schemas. */

export interface Schema {
  $ref?: string;
  type?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  format?: string;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
}

export interface Parameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required: boolean;
  description?: string;
  schema: Schema;
}

export interface Content {
  schema: Schema;
  example?: unknown;
}

export interface Answer {
  $ref?: string;
  description: string;
  content?: Record<string, Content>;
}

interface Described {
  operationId: string;
  tags: string[];
  summary: string;
  description?: string;
  security: Record<string, string[]>[];
  parameters?: Parameter[];
  requestBody?: { required: boolean; content: Record<string, Content> };
  responses: Record<string, Answer>;
}

export interface Operation extends Described {
  id: string;
  method: string;
  path: string;
  tag: Tag;
  /** The address of another server that has it; null: it is at this one. */
  elsewhere: string | null;
}

export interface Tag {
  id: string;
  name: string;
  group: string;
  operations: Operation[];
}

interface Document {
  info: { version: string; description: string };
  servers: { url: string }[];
  paths: Record<string, Record<string, unknown> & { servers?: { url: string }[] }>;
  'x-tagGroups': { name: string; tags: string[] }[];
  components: { schemas: Record<string, Schema>; responses: Record<string, Answer> };
}

export interface Reference {
  version: string;
  description: string;
  address: string;
  groups: { name: string; tags: Tag[] }[];
  operations: Operation[];
  schemas: Record<string, Schema>;
  responses: Record<string, Answer>;
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete'];

export async function load(): Promise<Reference> {
  const response = await fetch('/openapi.json');
  if (!response.ok) throw new Error(`The document could not be loaded: status ${response.status}.`);
  return read((await response.json()) as Document);
}

function read(document: Document): Reference {
  const tags = new Map<string, Tag>();
  for (const group of document['x-tagGroups']) for (const name of group.tags) tags.set(name, { id: tagId(name), name, group: group.name, operations: [] });
  const here = document.servers[0]!.url, operations: Operation[] = [];
  for (const [path, item] of Object.entries(document.paths)) {
    const server = item.servers?.[0]?.url ?? here;
    for (const method of METHODS) {
      const described = item[method] as Described | undefined;
      const tag = described && tags.get(described.tags[0]!);
      if (!tag) continue;
      const operation = { ...described, id: described.operationId, method: method.toUpperCase(), path, tag, elsewhere: server === here ? null : server };
      tag.operations.push(operation);
      operations.push(operation);
    }
  }
  const groups = document['x-tagGroups'].map((group) => ({ name: group.name, tags: group.tags.map((name) => tags.get(name)!) }));
  return { version: document.info.version, description: document.info.description, address: here, groups, operations, schemas: document.components.schemas, responses: document.components.responses };
}

/** The same as tag_id() of app/api/openapi/page.py. */
const tagId = (name: string) => 'tag-' + name.toLowerCase().replaceAll(' ', '-');

export const nameOf = (ref: string) => ref.slice(ref.lastIndexOf('/') + 1);

export function resolve(reference: Reference, schema: Schema): Schema {
  return schema.$ref ? (reference.schemas[nameOf(schema.$ref)] ?? {}) : schema;
}

export function resolveAnswer(reference: Reference, answer: Answer): Answer {
  return answer.$ref ? (reference.responses[nameOf(answer.$ref)] ?? answer) : answer;
}

/** The operations and the names of schemas that have every word: what has them in its path or summary comes first. */
export function search(reference: Reference, text: string): { operations: Operation[]; schemas: string[] } {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (where: string) => words.every((word) => where.includes(word));
  const first: Operation[] = [], then: Operation[] = [];
  for (const each of reference.operations) {
    const head = `${each.method} ${each.path} ${each.summary} ${each.id} ${each.tag.name}`.toLowerCase();
    if (has(head)) first.push(each);
    else if (has(`${head} ${each.description ?? ''} ${(each.parameters ?? []).map((parameter) => `${parameter.name} ${parameter.description ?? ''}`).join(' ')}`.toLowerCase())) then.push(each);
  }
  return { operations: [...first, ...then], schemas: Object.keys(reference.schemas).filter((name) => has(name.toLowerCase())) };
}

const DEEPEST = 4;

/** A body to begin with: the required fields, each with its default or something of its type. */
export function skeleton(reference: Reference, schema: Schema, depth = 0): unknown {
  const found = resolve(reference, schema);
  if (found.default !== undefined) return found.default;
  if (found.const !== undefined) return found.const;
  if (found.enum) return found.enum[0];
  const choice = (found.anyOf ?? found.oneOf)?.find((each) => each.type !== 'null');
  if (choice) return depth > DEEPEST ? null : skeleton(reference, choice, depth + 1);
  switch (found.type) {
    case 'object': {
      const entries = (found.required ?? []).map((name) => [name, depth > DEEPEST ? null : skeleton(reference, found.properties?.[name] ?? {}, depth + 1)]);
      return Object.fromEntries(entries);
    }
    case 'array':
      return [];
    case 'integer':
    case 'number':
      return found.minimum ?? 0;
    case 'boolean':
      return false;
    default:
      return '';
  }
}
