/** One model or function with its side of the conversation. */
import { useState } from 'preact/hooks';
import type { ApiError } from '../../api';
import { count, dollars, duration } from '../../format';
import { Field } from '../../parts/Field';
import { pretty, Text } from '../../parts/Text';
import { to } from '../../router';
import { session } from '../../session';
import type { Answer, Message } from './chat';
import { set } from './Settings';
import { again, ask, isBusy, modelOf, openCalls, turns } from './state';
import type { Side, Turn } from './state';

export function Column({ side, models, error }: { side: Side; models: string[]; error: ApiError | null }) {
  const own = turns.value[side], model = modelOf(side), parameter = side === 0 ? 'model' : 'with';
  return (
    <section class="panel play-column" aria-label={side === 0 ? 'First model' : 'Second model'}>
      <Field name={`model-${side}`} label={side === 0 ? 'Model or function' : 'Beside it'} value={model} set={(value) => set(parameter, value)} list={models} placeholder="Its name" error={error?.param === 'model' && own.at(-1)?.answer.error === error ? error : null} params={['model']} />
      <div class="talk" role="log" aria-label={`Conversation with ${model || 'no model yet'}`} aria-busy={isBusy(side)}>
        {own.length === 0 && <p class="play-empty">Nothing is asked yet. What you write below goes to {model ? <b class="wrap">{model}</b> : 'the model that you choose'}.</p>}
        {own.map((turn, index) => <Exchange key={index} turn={turn} side={side} isLast={index === own.length - 1} />)}
      </div>
      {openCalls(side).length > 0 && <Results key={own.length} side={side} />}
    </section>
  );
}

function Exchange({ turn, side, isLast }: { turn: Turn; side: Side; isLast: boolean }) {
  return (
    <>
      {turn.sent.map((message, index) => <Sent key={index} message={message} />)}
      <Answered answer={turn.answer} retry={isLast ? () => again(side) : null} />
    </>
  );
}

function Sent({ message }: { message: Message }) {
  const parts = typeof message.content === 'string' ? [{ type: 'text' as const, text: message.content }] : (message.content ?? []);
  return (
    <article class={`message ${message.role}`}>
      <header>{message.role === 'tool' ? 'tool result' : message.role}</header>
      {parts.map((part, index) => <div class="part" key={index}>{part.type === 'text' ? <Text text={part.text} /> : <p class="dim">an image of {count(Math.round(part.image_url.url.length * 0.75))} bytes</p>}</div>)}
    </article>
  );
}

const STATES: Record<Answer['state'], string> = { waiting: 'waiting for the first word …', writing: 'writing …', done: '', stopped: 'stopped', failed: 'failed' };

function Answered({ answer, retry }: { answer: Answer; retry: (() => void) | null }) {
  const isOver = answer.us !== null, finish = answer.finish && !['stop', 'tool_calls'].includes(answer.finish) ? answer.finish : null;
  return (
    <article class="message assistant" aria-busy={!isOver}>
      <header>
        assistant
        {STATES[answer.state] && <span class={`tag${answer.state === 'failed' ? ' bad' : answer.state === 'stopped' ? ' warn' : ' info'}`}>{STATES[answer.state]}</span>}
        {finish && <span class="tag warn">{finish === 'length' ? 'reached the most tokens' : finish.replaceAll('_', ' ')}</span>}
      </header>
      {answer.reasoning && <details open={!isOver && !answer.text}><summary class="dim">Reasoning, {count(answer.reasoning.length)} characters</summary><Text text={answer.reasoning} /></details>}
      {answer.text && <div class="part"><Text text={answer.text} /></div>}
      {answer.refusal && <div class="part"><span class="tag warn">refuses</span><Text text={answer.refusal} /></div>}
      {answer.calls.map((call, index) => <div class="part" key={index}><p>calls <code><bdi>{call.name}</bdi></code></p><Text text={isOver ? pretty(call.text) : call.text} code /></div>)}
      {answer.state === 'done' && !answer.text && !answer.calls.length && !answer.refusal && <p class="dim">It wrote nothing.</p>}
      {answer.error && <Failed answer={answer} error={answer.error} retry={retry} />}
      {answer.state === 'stopped' && retry && <p><button class="button small" onClick={retry}>Ask again</button></p>}
      {isOver && answer.id && <Facts answer={answer} />}
    </article>
  );
}

function Failed({ answer, error, retry }: { answer: Answer; error: ApiError; retry: (() => void) | null }) {
  return (
    <div class="play-fault" role="alert">
      <p class="wrap">{error.message}</p>
      {(error.requestId ?? answer.id) && <p class="note mono wrap">request {error.requestId ?? answer.id}</p>}
      {retry && <button class="button small" onClick={retry}>Try again{error.retryAfterS ? ` (it would pass in ${count(Math.ceil(error.retryAfterS))} s)` : ''}</button>}
    </div>
  );
}

function Facts({ answer }: { answer: Answer }) {
  const address = to(session.value?.kind === 'caller' ? '/me' : '/requests', { id: answer.id });
  const tokens = answer.output === null ? null : `${count(answer.input)} + ${count(answer.output)} tokens${answer.reasoned ? `, ${count(answer.reasoned)} of them reasoning` : ''}`;
  return (
    <ul class="play-facts" aria-label="What it took">
      {tokens && <li>{tokens}</li>}
      {answer.output !== null && <li>{answer.costUsd === null ? 'unpriced' : dollars(answer.costUsd)}</li>}
      <li>{duration(answer.us)}{answer.firstUs !== null && `, first word after ${duration(answer.firstUs)}`}</li>
      {answer.served && <li class="wrap">{answer.served}{answer.variant && ` · ${answer.variant}`}</li>}
      {answer.dropped && <li class="warn wrap">left out: {answer.dropped}</li>}
      <li><a class="link" href={address}>The request</a></li>
    </ul>
  );
}

/** Results of the tools that the model called: what a program would send back. */
function Results({ side }: { side: Side }) {
  const calls = openCalls(side), [texts, setTexts] = useState<string[]>(calls.map(() => ''));
  const submit = () => ask(side, calls.map((call, index) => ({ role: 'tool', tool_call_id: call.id, content: texts[index]! })));
  return (
    <form class="form play-results" onSubmit={(event) => { event.preventDefault(); submit(); }}>
      {calls.map((call, index) => (
        <div class="field" key={call.id}>
          <label for={`result-${side}-${index}`}>Result of <code>{call.name}</code></label>
          <textarea id={`result-${side}-${index}`} class="input mono" rows={2} value={texts[index]} onInput={(event) => setTexts(texts.map((each, at) => (at === index ? event.currentTarget.value : each)))} />
        </div>
      ))}
      <div class="actions"><button class="button">Send the {calls.length === 1 ? 'result' : 'results'}</button></div>
    </form>
  );
}
