/** What a field of a form is, by the schema that the API's document has of it. */
import { SCHEMAS } from '../generated/forms';

export interface Schema {
  $ref?: string;
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: Schema | boolean;
  items?: Schema;
  enum?: (string | number)[];
  anyOf?: Schema[];
  default?: unknown;
  examples?: string[];
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minItems?: number;
  maxItems?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
  propertyNames?: Schema;
  minProperties?: number;
  maxProperties?: number;
}

/** How a field is filled in. `lines`: texts, one a line; `pairs`: numbers or texts by name, one a line; `json`: anything else. */
export type Kind = 'text' | 'number' | 'flag' | 'choice' | 'choices' | 'lines' | 'pairs' | 'object' | 'list' | 'named' | 'json';

export interface Shape {
  kind: Kind;
  /** May be null, which is what an empty field means. */
  nullable: boolean;
  /** Of the value itself, without null. */
  schema: Schema;
  /** Of what a list, or the object of names, has. */
  item?: Schema;
  /** Of `lines`: a single text is meant as it is, not as a list of one. */
  single?: (text: string) => boolean;
  whole?: boolean;
}

const REFERENCE = '#/components/schemas/';

export function resolve(schema: Schema): Schema {
  const found = schema.$ref ? SCHEMAS[schema.$ref.slice(REFERENCE.length)] : undefined;
  return found ? { ...found, ...schema, description: schema.description ?? found.description! } : schema;
}

const typeOf = (schema: Schema) => (Array.isArray(schema.type) ? schema.type[0] : schema.type);

/** The alternatives, also where one of them has alternatives of its own. */
function alternativesOf(schema: Schema): Schema[] {
  const found = resolve(schema);
  return found.anyOf ? found.anyOf.flatMap(alternativesOf) : [found];
}

export function shapeOf(given: Schema): Shape {
  const alternatives = alternativesOf(given), some = alternatives.filter((each) => typeOf(each) !== 'null');
  const nullable = some.length < alternatives.length, arrays = some.filter((each) => typeOf(each) === 'array'), texts = some.filter((each) => typeOf(each) === 'string');
  if (some.length > 1) {
    const lines = arrays.find((each) => each.items && typeOf(resolve(each.items)) === 'string');
    if (!lines || texts.length + arrays.length < some.length) return { kind: 'json', nullable, schema: given };
    return { kind: 'lines', nullable, schema: lines, single: (text) => texts.some((each) => !each.enum || each.enum.includes(text)) };
  }
  return { nullable, ...shapeOfOne(some[0] ?? given) };
}

function shapeOfOne(schema: Schema): { kind: Kind; schema: Schema; item?: Schema; whole?: boolean } {
  switch (typeOf(schema)) {
    case 'string':
      return { kind: schema.enum ? 'choice' : 'text', schema };
    case 'integer':
      return { kind: 'number', schema, whole: true };
    case 'number':
      return { kind: 'number', schema };
    case 'boolean':
      return { kind: 'flag', schema };
    case 'array': {
      const item = schema.items ? resolve(schema.items) : {};
      if (item.enum) return { kind: 'choices', schema, item };
      if (typeOf(item) === 'string') return { kind: 'lines', schema };
      return item.properties ? { kind: 'list', schema, item } : { kind: 'json', schema };
    }
    case 'object': {
      if (schema.properties) return { kind: 'object', schema };
      const item = typeof schema.additionalProperties === 'object' ? resolve(schema.additionalProperties) : undefined;
      if (item?.properties) return { kind: 'named', schema, item };
      if (item && ['string', 'number', 'integer'].includes(typeOf(item) ?? '')) return { kind: 'pairs', schema, item };
      return { kind: 'json', schema };
    }
    default:
      return { kind: 'json', schema };
  }
}

/** The least value that a field may have: what is required and has no default must be filled in. */
export function emptyOf(schema: Schema): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const name of schema.required ?? []) {
    const shape = shapeOf(schema.properties?.[name] ?? {});
    if (shape.kind === 'text') found[name] = '';
    else if (shape.kind === 'choice') found[name] = shape.schema.enum?.[0];
    else if (shape.kind === 'named' || shape.kind === 'object' || shape.kind === 'pairs') found[name] = shape.kind === 'object' ? emptyOf(shape.schema) : {};
  }
  return found;
}

const WORDS: Record<string, string> = { url: 'URL', id: 'id', usd: 'dollars', gpu: 'GPU', gpus: 'GPUs', lora: 'LoRA' };
const UNITS: Record<string, string> = { s: 'in seconds', us: 'in microseconds', ms: 'in milliseconds' };

/** The name of a field as a person reads it: base_url is "Base URL", total_s "Total, in seconds". */
export function labelOf(name: string): string {
  const words = name.split('_'), unit = words.length > 1 ? UNITS[words.at(-1)!] : undefined;
  const shown = (unit ? words.slice(0, -1) : words).map((each) => WORDS[each] ?? each).join(' ');
  return shown.charAt(0).toUpperCase() + shown.slice(1) + (unit ? `, ${unit}` : '');
}

/** The API says "null" of what a form leaves empty. */
export function aboutOf(description: string | undefined): string {
  return (description ?? '').replace(/\bnull\b(?=[:,]| (?:in|means|or))/gi, (word) => (word.startsWith('N') ? 'Empty' : 'empty'));
}

export const isDefault = (schema: Schema, value: unknown) => value === undefined || JSON.stringify(value) === JSON.stringify(schema.default ?? null);
