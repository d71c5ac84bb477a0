/** A form for an operation's values: sends it from this page, as who is signed in or with a key that is kept nowhere. */
import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Area, Choice, Field } from '../parts/Field';
import { Snippet } from '../parts/Snippet';
import { loadSession, session } from '../session';
import type { Operation, Parameter, Reference, Schema } from './document';
import { addressOf, credentials, emptyValues, headersOf, missing, valueOf, withValue, writeCurl } from './request';
import type { Credential, Values } from './request';
import { send } from './send';
import type { Sent } from './send';
import { SentView } from './SentView';
import { Words } from './Types';

/** In the memory of this page alone: loading it again forgets it. */
const pasted = signal('');
const wasLoaded = signal(false);

export function TryIt({ reference, operation, close }: { reference: Reference; operation: Operation; close: () => void }) {
  const ways = credentials(operation);
  const [values, setValues] = useState<Values>(() => emptyValues(reference, operation));
  const [way, setWay] = useState<Credential>(ways[0]!), [sent, setSent] = useState<Sent | null>(null), [fault, setFault] = useState('');
  const abort = useRef<AbortController | null>(null), box = useRef<HTMLElement>(null);
  useEffect(() => {
    box.current?.focus({ preventScroll: true });
    if (!ways.includes('session') || wasLoaded.value) return;
    wasLoaded.value = true;
    void loadSession().then(() => !session.value && setWay('bearer'));
  }, []);
  useEffect(() => () => abort.current?.abort(), []);
  const busy = sent !== null && !sent.ended;
  const submit = (event: Event) => {
    event.preventDefault();
    const without = missing(operation, values);
    if (without) return setFault(`${without.name} is required.`);
    if ((way === 'bearer' || way === 'node') && !pasted.value.trim()) return setFault(way === 'node' ? 'Paste the secret of nodes.' : 'Paste a key.');
    setFault('');
    abort.current?.abort();
    abort.current = new AbortController();
    const headers = headersOf(operation, values);
    if (way === 'bearer') headers['Authorization'] = `Bearer ${pasted.value.trim()}`;
    if (way === 'node') headers['Authorization'] = `Basic ${btoa(`node:${pasted.value.trim()}`)}`;
    const body = operation.requestBody && values.body.trim() ? values.body : null;
    void send({ method: operation.method, address: addressOf(operation, values), headers, body, credentials: way === 'session' ? 'same-origin' : 'omit' }, abort.current.signal, setSent);
  };
  return (
    <section class="try" ref={box} tabIndex={-1} aria-label={`Try ${operation.method} ${operation.path}`}>
      <div class="panel-head"><h2>Try it</h2><span class="grow" /><button class="button small" onClick={close}>Close</button></div>
      {operation.elsewhere ? (
        <p class="note">This route is at <code>{operation.elsewhere}</code>, which a page of this address may not call. The command below does.</p>
      ) : (
        <form class="form" onSubmit={submit}>
          <Access ways={ways} way={way} setWay={setWay} operation={operation} />
          {(operation.parameters ?? []).length > 0 && (
            <div class="try-fields">
              {operation.parameters!.map((each) => <ParameterField key={each.in + each.name} id={`${operation.id}-${each.in}-${each.name}`} parameter={each} value={valueOf(values, each)} set={(value) => setValues(withValue(values, each, value))} />)}
            </div>
          )}
          {operation.requestBody && <Area name={`${operation.id}-body`} label={`Body, ${values.contentType}`} rows={Math.min(16, values.body.split('\n').length + 2)} value={values.body} set={(body) => setValues({ ...values, body })} />}
          {fault && <p class="bad" role="alert">{fault}</p>}
          <div class="actions">
            <button class="button primary" disabled={busy}>{busy ? 'Sending …' : `Send ${operation.method}`}</button>
            {busy && <button type="button" class="button" onClick={() => abort.current?.abort()}>Stop</button>}
            {operation.method !== 'GET' && <span class="note">{valuesAreDry(operation, values) ? 'With dry_run nothing is changed.' : 'This is sent to the gateway that runs here.'}</span>}
          </div>
        </form>
      )}
      {sent && <SentView sent={sent} />}
      <details class="inner"><summary>The same with curl</summary><Snippet text={writeCurl(operation, values, true)} what="The command" /></details>
    </section>
  );
}

function valuesAreDry(operation: Operation, values: Values): boolean {
  return (operation.parameters ?? []).some((each) => each.name === 'dry_run' && valueOf(values, each) === 'true');
}

function Access({ ways, way, setWay, operation }: { ways: Credential[]; way: Credential; setWay: (way: Credential) => void; operation: Operation }) {
  if (way === 'none') return <p class="note">Anybody may send this: it takes no key.</p>;
  const texts: Record<Credential, string> = { session: session.value ? `as ${session.value.name}, who is signed in here` : 'as who is signed in here', bearer: 'with a key', node: 'with the secret of nodes', none: 'without a key' };
  return (
    <div class="pair-of">
      <Choice name={`${operation.id}-way`} label="Send it" value={way} set={(value) => setWay(value as Credential)} options={ways.map((each) => [each, texts[each]])} />
      {way === 'session' && !session.value && <p class="note">Nobody is signed in: <a class="link" href="/dashboard">sign in</a>, or send it with a key.</p>}
      {(way === 'bearer' || way === 'node') && <Field name={`${operation.id}-key`} label={way === 'node' ? 'Secret' : 'Key'} type="password" value={pasted.value} set={(value) => (pasted.value = value)} placeholder={way === 'node' ? '' : 'nx-…'} hint="It stays in the memory of this page, and is sent to this gateway alone." />}
    </div>
  );
}

function ParameterField({ id, parameter, value, set }: { id: string; parameter: Parameter; value: string; set: (value: string) => void }) {
  const label = `${parameter.name}${parameter.required ? '' : ', optional'}`, options = optionsOf(parameter.schema);
  const hint = parameter.description ? <Words text={parameter.description} /> : undefined;
  if (options) return <Choice name={id} label={label} value={value} set={set} hint={hint} options={[['', parameter.schema.default == null ? '–' : `– (${String(parameter.schema.default)})`], ...options.map((each): [string, string] => [each, each])]} />;
  return <Field name={id} label={label} value={value} set={set} hint={hint} placeholder={parameter.schema.default == null ? '' : String(parameter.schema.default)} />;
}

function optionsOf(schema: Schema): string[] | null {
  if (schema.type === 'boolean') return ['true', 'false'];
  return schema.enum ? schema.enum.map(String) : null;
}
