/** A conversation as messages of parts, in no API's format. All of it is text nodes: nothing that a model writes becomes markup. */
import { count } from '../format';
import type { ShownMessage } from '../generated/api';
import { pretty, Text } from './Text';

type ShownPart = ShownMessage['parts'][number];

const FOLDED = 6;

/** `newFrom`: the first message that the turn before did not have; what was said before is folded. */
export function Messages({ messages, newFrom = 0 }: { messages: ShownMessage[]; newFrom?: number }) {
  const hidden = newFrom > 2 ? newFrom : messages.length > FOLDED * 2 ? messages.length - FOLDED : 0;
  return (
    <div class="talk">
      {hidden > 0 && (
        <details>
          <summary class="link">{count(hidden)} earlier messages</summary>
          <div class="talk">{messages.slice(0, hidden).map((each, index) => <MessageCard key={index} message={each} />)}</div>
        </details>
      )}
      {messages.slice(hidden).map((each, index) => <MessageCard key={index} message={each} />)}
    </div>
  );
}

function MessageCard({ message }: { message: ShownMessage }) {
  const results = message.parts.length > 0 && message.parts.every((part) => part.kind === 'tool_result');
  return (
    <article class={`message ${results ? 'tool' : message.role}`}>
      <header>
        {results ? 'tool result' : message.role}
        {message.name && <bdi class="dim">{message.name}</bdi>}
        {message.finish_reason && message.finish_reason !== 'stop' && <span class="tag">{message.finish_reason.replaceAll('_', ' ')}</span>}
      </header>
      {message.parts.length === 0 && <p class="dim">nothing</p>}
      {message.parts.map((part, index) => <div class="part" key={index}><Part part={part} /></div>)}
    </article>
  );
}

function Part({ part }: { part: ShownPart }) {
  switch (part.kind) {
    case 'text':
      return <>{part.is_json ? <Text text={pretty(part.text)} code /> : <Text text={part.text} />}<Cut all={part.characters} shown={part.text} /></>;
    case 'refusal':
      return <><span class="tag warn">refuses</span><Text text={part.text} /><Cut all={part.characters} shown={part.text} /></>;
    case 'reasoning':
      return part.hidden ? <p class="dim">Reasoning, which its host returned encrypted</p> : <details><summary class="dim">Reasoning, {count(part.characters)} characters</summary><Text text={part.text} /><Cut all={part.characters} shown={part.text} /></details>;
    case 'tool_call':
      return <><p>calls <code><bdi>{part.name}</bdi></code>{!part.valid && <span class="tag bad">arguments are no JSON</span>}</p><Text text={pretty(part.arguments)} code /><Cut all={part.characters} shown={part.arguments} /></>;
    case 'tool_result':
      return <>{part.error && <span class="tag bad">error</span>}{part.parts.map((each, index) => <Part key={index} part={each} />)}</>;
    case 'media':
      return <p class="dim">{part.media}{part.media_type ? `, ${part.media_type}` : ''}{part.size_bytes != null ? `, ${count(part.size_bytes)} bytes` : ''}{part.name ? `, ${part.name}` : ''}{part.url ? <>, at <code class="wrap">{part.url.slice(0, 200)}</code></> : ''}</p>;
    case 'other':
      return <Text text={pretty(part.json)} code />;
  }
}

function Cut({ all, shown }: { all: number; shown: string }) {
  return all > shown.length ? <p class="note">The first {count(shown.length)} of {count(all)} characters. "Raw" has all of it.</p> : null;
}
