/** A field of a form: its label, a hint, and what the API has against its value. */
import type { ComponentChildren } from 'preact';
import type { ApiError } from '../api';

interface Common {
  name: string;
  label: string;
  hint?: ComponentChildren;
  error?: ApiError | null;
  /** Names of the API's parameters whose refusal belongs here. */
  params?: string[];
}

export function Field(props: Common & { value: string; set: (value: string) => void; type?: 'text' | 'password' | 'number' | 'date'; required?: boolean; placeholder?: string; list?: string[] }) {
  const fault = faultOf(props);
  return (
    <Labelled {...props}>
      <input
        id={props.name}
        class="input"
        type={(props.type ?? 'text') as 'text'}
        value={props.value}
        required={props.required ?? false}
        placeholder={props.placeholder ?? ''}
        autocomplete="off"
        spellcheck={false}
        list={props.list ? `${props.name}-list` : undefined}
        aria-invalid={fault !== null}
        aria-describedby={`${props.name}-about`}
        onInput={(event) => props.set(event.currentTarget.value)}
      />
      {props.list && <datalist id={`${props.name}-list`}>{props.list.map((each) => <option key={each} value={each} />)}</datalist>}
    </Labelled>
  );
}

export function Area(props: Common & { value: string; set: (value: string) => void; rows?: number; placeholder?: string }) {
  return (
    <Labelled {...props}>
      <textarea id={props.name} class="input mono" rows={props.rows ?? 5} value={props.value} placeholder={props.placeholder ?? ''} spellcheck={false} aria-invalid={faultOf(props) !== null} aria-describedby={`${props.name}-about`} onInput={(event) => props.set(event.currentTarget.value)} />
    </Labelled>
  );
}

export function Choice(props: Common & { value: string; set: (value: string) => void; options: [string, string][] }) {
  return (
    <Labelled {...props}>
      <select id={props.name} value={props.value} aria-describedby={`${props.name}-about`} onChange={(event) => props.set(event.currentTarget.value)}>
        {props.options.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
      </select>
    </Labelled>
  );
}

export function Check(props: { label: ComponentChildren; checked: boolean; set: (value: boolean) => void }) {
  return <label class="check"><input type="checkbox" checked={props.checked} onChange={(event) => props.set(event.currentTarget.checked)} /><span>{props.label}</span></label>;
}

function Labelled(props: Common & { children?: ComponentChildren }) {
  const fault = faultOf(props);
  return (
    <div class="field">
      <label for={props.name}>{props.label}</label>
      {props.children}
      <div id={`${props.name}-about`}>
        {fault ? <p class="fault" role="alert">{fault}</p> : props.hint && <p class="hint">{props.hint}</p>}
      </div>
    </div>
  );
}

function faultOf({ name, params, error }: Common): string | null {
  if (!error?.param) return null;
  const names = params ?? [name];
  return names.some((each) => error.param === each || error.param!.startsWith(`${each}.`) || error.param!.startsWith(`${each}[`)) ? error.message : null;
}

/** Whether a refusal was shown at its field already. */
export const isOfField = (error: ApiError | null, names: string[]) => error?.param != null && names.some((each) => error.param!.split(/[.[]/)[0] === each);
