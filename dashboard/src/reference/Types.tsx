/** Types as people write them, with their bounds; named schemas are links. */
import type { ComponentChildren } from 'preact';
import { nameOf } from './document';
import type { Schema } from './document';

const BOUNDS: [keyof Schema, string][] = [
  ['minimum', 'at least'],
  ['exclusiveMinimum', 'more than'],
  ['maximum', 'at most'],
  ['exclusiveMaximum', 'less than'],
];

export function Type({ schema }: { schema: Schema }) {
  if (schema.$ref) {
    const name = nameOf(schema.$ref);
    return <a class="link" href={`#schema-${name}`}>{name}</a>;
  }
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return <>{joined(choices.map((each) => <Type schema={each} />), ' or ')}<Default schema={schema} /></>;
  if (schema.const !== undefined) return <code>{JSON.stringify(schema.const)}</code>;
  if (schema.enum) return <>{joined(schema.enum.map((each) => <code>{String(each)}</code>), ', ')}<Default schema={schema} /></>;
  return <><Kind schema={schema} />{bounds(schema)}<Default schema={schema} /></>;
}

function Kind({ schema }: { schema: Schema }) {
  if (schema.type === 'array') return schema.items && Object.keys(schema.items).length ? <>list of <Type schema={schema.items} /></> : <>list</>;
  if (schema.type === 'object' && typeof schema.additionalProperties === 'object') return <>object of <Type schema={schema.additionalProperties} /></>;
  if (schema.type === 'object' && schema.properties) return <>object with {joined(Object.keys(schema.properties).map((name) => <code>{name}</code>), ', ')}</>;
  return <>{schema.type ?? 'any value'}</>;
}

function bounds(schema: Schema): string {
  const found = BOUNDS.filter(([name]) => schema[name] !== undefined).map(([name, words]) => `${words} ${schema[name]}`);
  if (schema.minLength) found.push(schema.minLength === 1 ? 'not empty' : `at least ${schema.minLength} characters`);
  if (schema.maxLength !== undefined) found.push(`at most ${schema.maxLength} characters`);
  if (schema.minItems) found.push(schema.minItems === 1 ? 'not empty' : `at least ${schema.minItems} items`);
  if (schema.maxItems !== undefined) found.push(`at most ${schema.maxItems} items`);
  if (schema.format) found.push(schema.format);
  if (schema.pattern) found.push(`matching ${schema.pattern}`);
  return found.map((each) => `, ${each}`).join('');
}

function Default({ schema }: { schema: Schema }) {
  return schema.default == null ? null : <span class="dim">; default <code>{JSON.stringify(schema.default)}</code></span>;
}

function joined(parts: ComponentChildren[], between: string) {
  return parts.flatMap((each, index) => (index ? [between, each] : [each]));
}

/** A text of the document: its paragraphs, with what is between backticks as code. */
export function Prose({ text }: { text: string }) {
  return <>{text.split('\n\n').filter(Boolean).map((paragraph, index) => <p key={index}><Words text={paragraph} /></p>)}</>;
}

export function Words({ text }: { text: string }) {
  return <>{text.split('`').map((piece, index) => (index % 2 ? <code key={index}>{piece}</code> : piece))}</>;
}

/** The fields of a schema, `of` whatever has it: a page may show several. */
export function Properties({ schema, of }: { schema: Schema; of: string }) {
  const rows = Object.entries(schema.properties ?? {});
  if (!rows.length) return <p><Type schema={schema} /></p>;
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={`Fields of the ${of}`}>
        <table class="fields">
          <thead><tr><th scope="col">Field</th><th scope="col">Type</th><th scope="col">Meaning</th></tr></thead>
          <tbody>
            {rows.map(([name, each]) => (
              <tr key={name}>
                <th scope="row"><code>{name}</code>{schema.required?.includes(name) && <span class="tag">required</span>}</th>
                <td><Type schema={each} /></td>
                <td><Words text={each.description ?? nested(each)} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {schema.additionalProperties === false && <p class="note">No other fields.</p>}
    </>
  );
}

const nested = (schema: Schema) => schema.anyOf?.find((each) => each.description)?.description ?? '';
