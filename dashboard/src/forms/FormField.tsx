/** A field of a form, as its schema says: its label, what it means, and what the API has against its value. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { ApiError } from '../api';
import { Groups } from './Groups';
import { aboutOf, labelOf, shapeOf } from './schema';
import type { Schema, Shape } from './schema';
import { isAt } from './values';

export interface FieldProps {
  name: string;
  /** As the API names it in a refusal, such as targets[0].provider. */
  path: string;
  schema: Schema;
  required: boolean;
  value: unknown;
  set: (value: unknown) => void;
  error: ApiError | null;
  /** Names that may be meant, by the end of a path. */
  suggestions: Record<string, string[]>;
  label?: string;
  disabled?: boolean;
}

export function FormField(props: FieldProps) {
  const shape = shapeOf(props.schema);
  if (shape.kind === 'object' || shape.kind === 'list' || shape.kind === 'named') return <Groups {...props} shape={shape} />;
  return <Leaf {...props} shape={shape} />;
}

type LeafProps = FieldProps & { shape: Shape };

function Leaf(props: LeafProps) {
  switch (props.shape.kind) {
    case 'flag':
      return props.shape.nullable ? <Choice {...props} options={[['true', 'yes'], ['false', 'no']]} read={(text) => text === 'true'} /> : <Flag {...props} />;
    case 'choice':
      return <Choice {...props} options={(props.shape.schema.enum ?? []).map((each): [string, string] => [String(each), String(each).replaceAll('_', ' ')])} read={(text) => text} />;
    case 'choices':
      return <Choices {...props} />;
    case 'lines':
      return <TextOf {...props} write={writeLines} read={(text) => readLines(text, props.shape)} placeholder="one a line" />;
    case 'pairs':
      return <TextOf {...props} write={writePairs} read={(text) => readPairs(text, props.shape)} placeholder="name = value, one a line" />;
    case 'json':
      return <TextOf {...props} write={writeJson} read={readJson} placeholder="JSON" mono />;
    case 'number':
      return <Line {...props} type="number" read={(text) => (text.trim() === '' ? undefined : Number(text))} />;
    default:
      return isLong(props) ? <TextOf {...props} write={(value) => (typeof value === 'string' ? value : '')} read={(text) => ({ value: text === '' ? undefined : text })} placeholder="" mono /> : <Line {...props} type="text" read={(text) => (text === '' && !props.required ? undefined : text)} />;
  }
}

const isLong = ({ name }: FieldProps) => name.endsWith('template') || name === 'description';
const faultOf = (props: FieldProps) => (isAt(props.error?.param, props.path) ? props.error!.message : null);

function Frame(props: LeafProps & { children: ComponentChildren; wide?: boolean; fault?: string | null }) {
  const fault = props.fault ?? faultOf(props), about = aboutOf(props.schema.description ?? props.shape.schema.description);
  return (
    <div class={props.wide ? 'field whole' : 'field'}>
      <label for={props.path}>{props.label ?? labelOf(props.name)}{props.required && <span class="dim"> · required</span>}</label>
      {props.children}
      <div id={`${props.path}-about`}>
        {fault && <p class="fault" role="alert">{fault}</p>}
        {about && <p class="hint">{marked(about)}</p>}
      </div>
    </div>
  );
}

/** What the API's document marks as code. */
export function marked(text: string) {
  return text.split('`').map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part));
}

function defaultOf({ schema, shape }: LeafProps): string {
  const value = schema.default ?? shape.schema.default;
  return value == null || typeof value === 'object' ? '' : String(value);
}

function Line(props: LeafProps & { type: 'text' | 'number'; read: (text: string) => unknown }) {
  const { schema } = props.shape, suggested = props.suggestions[props.path.replace(/\[\d+\]/g, '')] ?? props.suggestions[props.name] ?? props.schema.examples ?? schema.examples;
  return (
    <Frame {...props}>
      <input
        id={props.path}
        class="input"
        type={props.type}
        step="any"
        min={schema.minimum}
        max={schema.maximum}
        maxLength={schema.maxLength}
        value={props.value == null ? '' : String(props.value)}
        placeholder={defaultOf(props)}
        required={props.required}
        disabled={props.disabled}
        autocomplete="off"
        spellcheck={false}
        list={suggested?.length ? `${props.path}-list` : undefined}
        aria-invalid={faultOf(props) !== null}
        aria-describedby={`${props.path}-about`}
        onInput={(event) => props.set(props.read(event.currentTarget.value) ?? (props.shape.nullable ? null : undefined))}
      />
      {suggested && suggested.length > 0 && <datalist id={`${props.path}-list`}>{suggested.map((each) => <option key={each} value={each} />)}</datalist>}
    </Frame>
  );
}

function Choice(props: LeafProps & { options: [string, string][]; read: (text: string) => unknown }) {
  const optional = props.shape.nullable || !props.required, fallback = defaultOf(props);
  return (
    <Frame {...props}>
      <select id={props.path} disabled={props.disabled} value={props.value == null ? '' : String(props.value)} aria-invalid={faultOf(props) !== null} aria-describedby={`${props.path}-about`} onChange={(event) => props.set(event.currentTarget.value === '' ? (props.shape.nullable ? null : undefined) : props.read(event.currentTarget.value))}>
        {optional && <option value="">{fallback ? `the default, ${fallback}` : 'not set'}</option>}
        {props.options.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
      </select>
    </Frame>
  );
}

function Flag(props: LeafProps) {
  const fault = faultOf(props), about = aboutOf(props.schema.description);
  return (
    <div class="field">
      <label class="check"><input id={props.path} type="checkbox" checked={props.value === true || (props.value === undefined && props.schema.default === true)} aria-describedby={`${props.path}-about`} onChange={(event) => props.set(event.currentTarget.checked)} /><span>{props.label ?? labelOf(props.name)}</span></label>
      <div id={`${props.path}-about`}>{fault && <p class="fault" role="alert">{fault}</p>}{about && <p class="hint">{marked(about)}</p>}</div>
    </div>
  );
}

function Choices(props: LeafProps) {
  const chosen = (props.value ?? props.schema.default ?? []) as string[], fault = faultOf(props);
  return (
    <fieldset class="field whole" aria-describedby={`${props.path}-about`}>
      <legend>{props.label ?? labelOf(props.name)}</legend>
      <div class="checks-of">
        {(props.shape.item?.enum ?? []).map(String).map((each) => <label class="check" key={each}><input type="checkbox" checked={chosen.includes(each)} onChange={(event) => props.set(event.currentTarget.checked ? [...chosen, each] : chosen.filter((other) => other !== each))} /><span>{each.replaceAll('_', ' ')}</span></label>)}
      </div>
      <div id={`${props.path}-about`}>{fault && <p class="fault" role="alert">{fault}</p>}<p class="hint">{marked(aboutOf(props.schema.description))}</p></div>
    </fieldset>
  );
}

type Read = { value: unknown } | { fault: string };

/** Text that stands for a value: it stays as it was typed, and only what can be read is passed on. */
function TextOf(props: LeafProps & { write: (value: unknown) => string; read: (text: string) => Read; placeholder: string; mono?: boolean }) {
  const [text, setText] = useState<string | null>(null), [fault, setFault] = useState<string | null>(null);
  const stored = props.write(props.value), shown = text ?? stored;
  const change = (typed: string) => {
    const read = props.read(typed);
    setText(typed);
    setFault('fault' in read ? read.fault : null);
    if ('value' in read) props.set(read.value ?? (props.shape.nullable ? null : undefined));
  };
  const leave = () => { if (!fault) setText(null); };
  return (
    <Frame {...props} fault={fault} wide={props.mono ?? false}>
      <textarea id={props.path} class={props.mono ? 'input mono' : 'input'} rows={Math.min(14, Math.max(props.mono ? 3 : 1, shown.split('\n').length))} value={shown} placeholder={props.placeholder} disabled={props.disabled} spellcheck={false} aria-invalid={fault !== null || faultOf(props) !== null} aria-describedby={`${props.path}-about`} onInput={(event) => change(event.currentTarget.value)} onBlur={leave} />
    </Frame>
  );
}

const writeLines = (value: unknown) => (Array.isArray(value) ? value.join('\n') : typeof value === 'string' ? value : '');

function readLines(text: string, shape: Shape): Read {
  const lines = text.split('\n').map((each) => each.trim()).filter(Boolean);
  if (!lines.length) return { value: undefined };
  return { value: lines.length === 1 && shape.single?.(lines[0]!) ? lines[0] : lines };
}

const writePairs = (value: unknown) => Object.entries((value ?? {}) as Record<string, unknown>).map(([name, each]) => `${name} = ${String(each)}`).join('\n');

function readPairs(text: string, shape: Shape): Read {
  const found: Record<string, unknown> = {}, isText = shape.item?.type === 'string';
  for (const line of text.split('\n').map((each) => each.trim()).filter(Boolean)) {
    const at = line.lastIndexOf('='), name = line.slice(0, at).trim(), value = line.slice(at + 1).trim();
    if (at < 1 || !name || value === '') return { fault: `Each line is name = value, not "${line}".` };
    if (!isText && !Number.isFinite(Number(value))) return { fault: `"${value}" is no number.` };
    found[name] = isText ? value : Number(value);
  }
  return { value: found };
}

const writeJson = (value: unknown) => (value == null || (typeof value === 'object' && Object.keys(value).length === 0) ? '' : JSON.stringify(value, null, 2));

function readJson(text: string): Read {
  if (!text.trim()) return { value: undefined };
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { fault: 'This is no JSON yet.' };
  }
}
