/** Text that somebody else wrote: text nodes alone, its invisible characters shown as marks, and never more of it than can be read. */
import { useState } from 'preact/hooks';
import { count } from '../format';

const SHOWN = 20_000;
/** Controls, zero-width and bidirectional characters: what could hide text, or turn its order around. */
// eslint-disable-next-line no-control-regex
const INVISIBLE = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0]|[\u{e0000}-\u{e0fff}]/gu;

export function Text({ text, code = false }: { text: string; code?: boolean }) {
  const [shown, setShown] = useState(SHOWN);
  const part = text.length > shown ? text.slice(0, shown) : text;
  const content = marked(part);
  return (
    <>
      {code ? <pre class="code" tabIndex={0}>{content}</pre> : <bdi dir="auto" class="text">{content}</bdi>}
      {text.length > shown && (
        <p>
          <button class="button small" onClick={() => setShown(shown + 4 * SHOWN)}>Show more</button>{' '}
          <small>{count(shown)} of {count(text.length)} characters</small>
        </p>
      )}
    </>
  );
}

/** A short text within a line, such as a name or the beginning of a message. */
export function Inline({ text }: { text: string }) {
  return <bdi>{text.replace(INVISIBLE, '·').slice(0, 300)}</bdi>;
}

function marked(text: string) {
  const parts: (string | preact.JSX.Element)[] = [];
  let from = 0;
  for (const match of text.matchAll(INVISIBLE)) {
    parts.push(text.slice(from, match.index));
    const code = match[0].codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0');
    parts.push(<span class="mark-char" title={`An invisible character: U+${code}`}>⟨{code}⟩</span>);
    from = match.index + match[0].length;
    if (parts.length > 2000) break;
  }
  parts.push(text.slice(from));
  return parts;
}

export function pretty(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value, null, 2);
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}
