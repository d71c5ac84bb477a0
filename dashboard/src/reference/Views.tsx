/** What the reference shows: everything at a glance, a subject, a schema, or what was searched for. */
import type { ComponentChildren } from 'preact';
import { plural } from '../format';
import { Head } from '../parts/Head';
import { Empty } from '../parts/States';
import { nameOf, search } from './document';
import type { Operation, Reference, Schema } from './document';
import { searched } from './location';
import { breakable, Method, OperationView } from './OperationView';
import { Properties, Prose, Words } from './Types';

export function Start({ reference }: { reference: Reference }) {
  return (
    <>
      <Head title="API reference" about={`${reference.operations.length} operations at ${reference.address}`}>
        <a class="button primary" href="#guide">Read the guide</a>
      </Head>
      <section class="panel"><div class="prose"><Prose text={reference.description} /></div></section>
      {reference.groups.map((group) => (
        <section class="panel" key={group.name}>
          <h2>{group.name}</h2>
          <div class="glance">
            {group.tags.map((tag) => (
              <div key={tag.id}>
                <h3><a class="link" href={`#${tag.id}`}>{tag.name}</a></h3>
                <ul>{tag.operations.map((each) => <li key={each.id}><a href={`#op-${each.id}`} title={each.summary}><Method name={each.method} /><code>{breakable(each.path)}</code></a></li>)}</ul>
              </div>
            ))}
          </div>
        </section>
      ))}
    </>
  );
}

export function Subject({ reference, id }: { reference: Reference; id: string }) {
  const tag = reference.groups.flatMap((group) => group.tags).find((each) => each.id === id)!;
  return (
    <>
      <Head title={tag.name} about={`${tag.group} · ${plural(tag.operations.length, 'operation')}`} />
      <Operations reference={reference} operations={tag.operations} />
    </>
  );
}

function Operations({ reference, operations }: { reference: Reference; operations: Operation[] }) {
  return <section class="panel flush operations">{operations.map((each) => <OperationView key={each.id} reference={reference} operation={each} />)}</section>;
}

const MAX_FOUND = 60;

export function Found({ reference }: { reference: Reference }) {
  const found = search(reference, searched.value), shown = found.operations.slice(0, MAX_FOUND);
  return (
    <>
      <Head title="Found" about={<span role="status">{plural(found.operations.length, 'operation')} and {plural(found.schemas.length, 'schema')} with “{searched.value}”</span>} />
      {!found.operations.length && !found.schemas.length && <section class="panel"><Empty title="Nothing has all of these words"><p>Paths, summaries, descriptions and parameters are searched, and names of schemas.</p></Empty></section>}
      {shown.length > 0 && <Operations reference={reference} operations={shown} />}
      {found.operations.length > shown.length && <p class="note">The first {MAX_FOUND} of them. Another word would narrow it.</p>}
      {found.schemas.length > 0 && <section class="panel"><h2>Schemas</h2><Names names={found.schemas.slice(0, MAX_FOUND)} /></section>}
    </>
  );
}

export function Schemas({ reference }: { reference: Reference }) {
  return <><Head title="Schemas" about={plural(Object.keys(reference.schemas).length, 'schema')} /><section class="panel"><Names names={Object.keys(reference.schemas)} /></section></>;
}

function Names({ names }: { names: string[] }) {
  return <ul class="schema-names">{names.map((name) => <li key={name}><a class="link mono" href={`#schema-${name}`}>{name}</a></li>)}</ul>;
}

export function SchemaView({ reference, name }: { reference: Reference; name: string }) {
  const schema = reference.schemas[name];
  if (!schema) return <Unknown />;
  const users = usersOf(reference, name);
  return (
    <>
      <Head title={name} about="Schema" />
      <section class="panel rows-of">
        {schema.description && <div class="prose"><Prose text={schema.description} /></div>}
        <Properties schema={schema} of="schema" />
        {users.length > 0 && <div><h2>Where it is</h2><p class="prose">{users}</p></div>}
      </section>
    </>
  );
}

export function Unknown() {
  return <><Head title="There is no such part" /><section class="panel"><Empty title="This address leads nowhere here"><p><Words text="It may be of another version of the gateway. The search finds operations, parameters and schemas." /></p><a class="button" href="#">Everything at a glance</a></Empty></section></>;
}

/** Links to the operations and schemas that name a schema themselves. */
function usersOf(reference: Reference, name: string): ComponentChildren[] {
  const links: [string, string][] = [];
  for (const each of reference.operations) if (names(each.requestBody, name) || names(each.responses, name)) links.push([`#op-${each.id}`, `${each.method} ${each.path}`]);
  for (const [other, schema] of Object.entries(reference.schemas)) if (other !== name && names(schema, name)) links.push([`#schema-${other}`, other]);
  return links.flatMap(([address, text], index) => [index ? ', ' : '', <a class="link mono" href={address}>{text}</a>]);
}

function names(value: unknown, name: string): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const ref = (value as Schema).$ref;
  if (typeof ref === 'string') return nameOf(ref) === name;
  return Object.values(value).some((each) => names(each, name));
}
