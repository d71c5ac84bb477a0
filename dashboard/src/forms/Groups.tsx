/** Fields that hold others: an object, a list of objects, or objects by name. */
import { useState } from 'preact/hooks';
import { FormField, marked } from './FormField';
import type { FieldProps } from './FormField';
import { aboutOf, emptyOf, isDefault, labelOf } from './schema';
import type { Schema, Shape } from './schema';
import { isAt, withField } from './values';
import type { Draft } from './values';

type GroupProps = FieldProps & { shape: Shape };

export function Groups(props: GroupProps) {
  switch (props.shape.kind) {
    case 'list':
      return <List {...props} />;
    case 'named':
      return <Named {...props} />;
    default:
      return <Inner {...props} />;
  }
}

/** Of an object without a required field so many are shown at once. */
const SHOWN = 8, MANY = 14;

/** The fields of an object. Those beyond `first` that have their default are folded away. */
export function Fields(props: { schema: Schema; path: string; value: Draft; set: (value: Draft) => void; first?: string[]; locked?: string[] } & Pick<FieldProps, 'error' | 'suggestions'>) {
  const { schema, value } = props, properties = schema.properties ?? {}, required = schema.required ?? [];
  const names = Object.keys(properties), wanted = props.first ?? names.filter((each) => required.includes(each));
  const first = (wanted.length || names.length <= MANY ? wanted : names.slice(0, SHOWN)).filter((each) => each in properties);
  const others = names.filter((each) => !first.includes(each)), isSet = others.filter((each) => !isDefault(properties[each]!, value[each]));
  const field = (name: string) => {
    const path = props.path ? `${props.path}.${name}` : name;
    return <FormField key={name} name={name} path={path} schema={properties[name]!} required={required.includes(name)} value={value[name]} set={(next) => props.set(withField(value, name, next))} error={props.error} suggestions={props.suggestions} disabled={props.locked?.includes(name) ?? false} />;
  };
  const open = others.some((each) => isAt(props.error?.param, props.path ? `${props.path}.${each}` : each));
  return (
    <>
      <div class="fields">{first.map(field)}</div>
      {others.length > 0 && (first.length === 0 ? <div class="fields">{others.map(field)}</div> : (
        <details class="more-fields" open={open || undefined}>
          <summary>{isSet.length ? `More settings, ${isSet.length} of them set` : 'More settings'}</summary>
          <div class="fields">{others.map(field)}</div>
        </details>
      ))}
    </>
  );
}

function About({ schema, path, error }: { schema: Schema; path: string; error: FieldProps['error'] }) {
  const about = aboutOf(schema.description);
  return <>{error?.param === path && <p class="fault" role="alert">{error.message}</p>}{about && <p class="hint">{marked(about)}</p>}</>;
}

function Inner(props: GroupProps) {
  const { shape, path, value } = props, isSet = value != null, title = props.label ?? labelOf(props.name);
  return (
    <fieldset class="field whole group">
      <legend>{title}</legend>
      <About schema={{ ...shape.schema, ...props.schema }} path={path} error={props.error} />
      {isSet ? (
        <>
          <Fields schema={shape.schema} path={path} value={value as Draft} set={props.set} error={props.error} suggestions={props.suggestions} />
          {(shape.nullable || !props.required) && <p><button type="button" class="button small" onClick={() => props.set(shape.nullable ? null : undefined)}>Take out</button></p>}
        </>
      ) : <p><button type="button" class="button small" onClick={() => props.set(emptyOf(shape.schema))}>Set {title.toLowerCase()} …</button></p>}
    </fieldset>
  );
}

function List(props: GroupProps) {
  const { path, shape } = props, item = shape.item!, rows = (props.value ?? []) as Draft[], one = labelOf(props.name).replace(/s$/, '').toLowerCase();
  const change = (at: number, next: Draft) => props.set(rows.map((each, index) => (index === at ? next : each)));
  const up = (at: number) => props.set(rows.map((each, index) => (index === at - 1 ? rows[at]! : index === at ? rows[at - 1]! : each)));
  return (
    <fieldset class="field whole group">
      <legend>{props.label ?? labelOf(props.name)}</legend>
      <About schema={props.schema} path={path} error={props.error} />
      {rows.map((row, at) => (
        <fieldset key={at} class="item">
          <legend>{one} {at + 1}</legend>
          <Fields schema={item} path={`${path}[${at}]`} value={row} set={(next) => change(at, next)} error={props.error} suggestions={props.suggestions} />
          {props.error?.param === `${path}[${at}]` && <p class="fault" role="alert">{props.error.message}</p>}
          <p class="actions">
            {at > 0 && <button type="button" class="button small" onClick={() => up(at)}>Move up<span class="sr"> {one} {at + 1}</span></button>}
            <button type="button" class="button small" onClick={() => props.set(rows.filter((_, index) => index !== at))}>Remove<span class="sr"> {one} {at + 1}</span></button>
          </p>
        </fieldset>
      ))}
      <p><button type="button" class="button small" onClick={() => props.set([...rows, emptyOf(item)])}>Add a {one}</button></p>
    </fieldset>
  );
}

function Named(props: GroupProps) {
  const { path, shape } = props, item = shape.item!, entries = Object.entries((props.value ?? {}) as Record<string, Draft>), one = labelOf(props.name).replace(/s$/, '').toLowerCase();
  const [adding, setAdding] = useState('');
  const put = (name: string, next: Draft | undefined) => props.set(Object.fromEntries(next === undefined ? entries.filter(([each]) => each !== name) : entries.some(([each]) => each === name) ? entries.map(([each, value]) => [each, each === name ? next : value]) : [...entries, [name, next]]));
  const add = () => { const name = adding.trim(); if (name && !entries.some(([each]) => each === name)) { put(name, emptyOf(item)); setAdding(''); } };
  return (
    <fieldset class="field whole group">
      <legend>{props.label ?? labelOf(props.name)}</legend>
      <About schema={props.schema} path={path} error={props.error} />
      {entries.map(([name, value]) => (
        <fieldset key={name} class="item">
          <legend>{one} {name}</legend>
          <Fields schema={item} path={`${path}.${name}`} value={value} set={(next) => put(name, next)} error={props.error} suggestions={props.suggestions} />
          <p><button type="button" class="button small" onClick={() => put(name, undefined)}>Remove<span class="sr"> {name}</span></button></p>
        </fieldset>
      ))}
      <div class="one-line">
        <input id={`${path}-new`} class="input" aria-label={`Name of a new ${one}`} placeholder={`name of a new ${one}`} value={adding} autocomplete="off" spellcheck={false} onInput={(event) => setAdding(event.currentTarget.value)} onKeyDown={(event) => { if (event.key === 'Enter') { event.preventDefault(); add(); } }} />
        <button type="button" class="button" disabled={!adding.trim()} onClick={add}>Add</button>
      </div>
    </fieldset>
  );
}
