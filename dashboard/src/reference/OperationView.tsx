/** An operation: closed until it is wanted, then its parameters, bodies, responses, the command for it, and a form to try it. */
import { useEffect, useState } from 'preact/hooks';
import { Snippet } from '../parts/Snippet';
import { resolve, resolveAnswer } from './document';
import type { Content, Operation, Reference, Schema } from './document';
import { anchor, arriveAt } from './location';
import { emptyValues, writeCurl } from './request';
import { TryIt } from './TryIt';
import { Properties, Prose, Type, Words } from './Types';

export function OperationView({ reference, operation }: { reference: Reference; operation: Operation }) {
  const id = `op-${operation.id}`, wanted = anchor.value === id;
  const [open, setOpen] = useState(wanted);
  useEffect(() => {
    if (!wanted) return;
    setOpen(true);
    arriveAt(id);
  }, [wanted]);
  return (
    <details class="operation" id={id} open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Method name={operation.method} />
        <code class="path">{breakable(operation.path)}</code>
        <span class="summary">{operation.summary}</span>
      </summary>
      {open && <OpenOperation reference={reference} operation={operation} />}
    </details>
  );
}

export function Method({ name }: { name: string }) {
  return <span class={`method ${name.toLowerCase()}`}>{name}</span>;
}

/** A path may break after its slashes, and nowhere else. */
export function breakable(path: string) {
  return path.split('/').flatMap((part, index) => (index ? ['/', <wbr key={index} />, part] : [part]));
}

function OpenOperation({ reference, operation }: { reference: Reference; operation: Operation }) {
  const [trying, setTrying] = useState(false), parameters = operation.parameters ?? [];
  return (
    <div class="operation-body">
      <div class="prose"><Prose text={operation.description ?? ''} /></div>
      <p class="note">Operation <code>{operation.id}</code> · <a class="link" href={`#op-${operation.id}`}>link</a></p>
      {parameters.length > 0 && (
        <section>
          <h2>Parameters</h2>
          <div class="scroll" tabIndex={0} role="region" aria-label="Parameters">
            <table class="fields">
              <thead><tr><th scope="col">Name</th><th scope="col">In</th><th scope="col">Type</th><th scope="col">Meaning</th></tr></thead>
              <tbody>
                {parameters.map((each) => (
                  <tr key={each.in + each.name}>
                    <th scope="row"><code>{each.name}</code>{each.required && <span class="tag">required</span>}</th>
                    <td>{each.in}</td>
                    <td><Type schema={each.schema} /></td>
                    <td><Words text={each.description ?? ''} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
      {operation.requestBody && (
        <section>
          <h2>Body{operation.requestBody.required ? '' : ', optional'}</h2>
          {Object.entries(operation.requestBody.content).map(([type, content]) => <Body key={type} reference={reference} type={type} content={content} />)}
        </section>
      )}
      <Responses reference={reference} operation={operation} />
      {trying ? (
        <TryIt reference={reference} operation={operation} close={() => setTrying(false)} />
      ) : (
        <section>
          <div class="panel-head"><h2>With curl</h2></div>
          <Snippet text={writeCurl(operation, emptyValues(reference, operation), false)} what="The command" />
          <p><button class="button primary" onClick={() => setTrying(true)}>Try it</button></p>
        </section>
      )}
    </div>
  );
}

function Body({ reference, type, content }: { reference: Reference; type: string; content: Content }) {
  return (
    <>
      <p class="note"><code>{type}</code>: <Type schema={content.schema} /></p>
      <Shape reference={reference} schema={content.schema} of={`body, ${type}`} />
    </>
  );
}

function Shape({ reference, schema, of }: { reference: Reference; schema: Schema; of: string }) {
  const found = resolve(reference, schema);
  return found.properties ? <Properties schema={found} of={of} /> : null;
}

function Responses({ reference, operation }: { reference: Reference; operation: Operation }) {
  const rows = Object.entries(operation.responses).map(([status, answer]) => [status, resolveAnswer(reference, answer)] as const);
  const [success] = rows.filter(([status]) => status.startsWith('2'));
  const shape = success && Object.values(success[1].content ?? {})[0]?.schema;
  return (
    <section>
      <h2>Responses</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Responses">
        <table class="fields">
          <thead><tr><th scope="col">Status</th><th scope="col">Response</th><th scope="col">Meaning</th></tr></thead>
          <tbody>
            {rows.map(([status, answer]) => (
              <tr key={status}>
                <th scope="row">{status}</th>
                <td>{Object.entries(answer.content ?? {}).map(([type, content]) => <div key={type}>{Object.keys(content.schema).some((key) => key !== 'description') ? <Type schema={content.schema} /> : <code>{type}</code>}</div>)}</td>
                <td><Words text={answer.description} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shape?.$ref && resolve(reference, shape).properties && (
        <details class="inner"><summary>Fields of the response</summary><Shape reference={reference} schema={shape} of="response" /></details>
      )}
    </section>
  );
}
