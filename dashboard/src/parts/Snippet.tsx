/** Code to be pasted elsewhere. It names the key's variable, and never a key. */
import { copy } from './Toast';

export function Snippet({ text, what }: { text: string; what: string }) {
  return (
    <div>
      <pre class="code" tabIndex={0}>{text}</pre>
      <p><button class="button small" onClick={() => void copy(text, what)}>Copy</button></p>
    </div>
  );
}
