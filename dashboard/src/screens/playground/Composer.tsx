/** Where the next message is written: to one side or to both. */
import { useRef } from 'preact/hooks';
import { ApiError } from '../../api';
import { count } from '../../format';
import { Icon } from '../../parts/Icon';
import { isOfField } from '../../parts/Field';
import { toast } from '../../parts/Toast';
import { ask, draft, isBusy, modelOf, openCalls, question, requestOf, stop, write } from './state';
import type { Side } from './state';

const MOST_IMAGES = 8, MOST_IMAGE_BYTES = 5_000_000;
const FIELDS = ['temperature', 'max_tokens', 'reasoning_effort', 'tools', 'tool_choice', 'response_format', 'more'];

export function Composer(props: { sides: Side[]; needsKey: boolean; fault: ApiError | null; setFault: (fault: ApiError | null) => void }) {
  const { sides, fault, setFault } = props, busy = sides.some(isBusy), written = draft.value;
  const waitsForResults = sides.some((side) => openCalls(side).length > 0), lacksModel = sides.some((side) => !modelOf(side).trim());
  const why = props.needsKey ? 'Choose the key first in whose name it runs.' : lacksModel ? 'Choose a model first.' : waitsForResults ? 'The model waits for the results of its tools, above.' : null;
  const send = () => {
    const messages = question();
    if (busy || why || !messages.length) return;
    try {
      for (const side of sides) requestOf(side, messages);
    } catch (wrong) {
      setFault(wrong instanceof ApiError ? wrong : new ApiError(0, String(wrong), null, null, null, null));
      return;
    }
    setFault(null);
    write({ text: '', images: [] });
    for (const side of sides) ask(side, messages);
  };
  return (
    <form class="panel play-composer" onSubmit={(event) => { event.preventDefault(); send(); }}>
      <label class="sr" for="message">Your message</label>
      <textarea
        id="message"
        class="input"
        rows={3}
        value={written.text}
        placeholder={sides.length > 1 ? 'Write to both' : 'Write to it'}
        onInput={(event) => write({ text: event.currentTarget.value })}
        onPaste={(event) => { const files = [...(event.clipboardData?.files ?? [])]; if (files.length) { event.preventDefault(); void addImages(files); } }}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); send(); }
          else if (event.key === 'Escape' && busy) { event.preventDefault(); stop(); }
        }}
      />
      {written.images.length > 0 && (
        <ul class="filters" aria-label="Images to be sent">
          {written.images.map((each, index) => <li key={index}><button type="button" class="chip on" aria-label={`Remove ${each.name}`} onClick={() => write({ images: written.images.filter((_, at) => at !== index) })}>{each.name.slice(0, 40)} ✕</button></li>)}
        </ul>
      )}
      {fault && !isOfField(fault, FIELDS) && <p class="bad" role="alert">{fault.message}</p>}
      {fault && isOfField(fault, FIELDS) && <p class="bad">A field of the settings is no valid JSON: its reason is there.</p>}
      <div class="actions">
        {busy ? <button type="button" class="button primary" onClick={stop}>Stop</button> : <button class="button primary" disabled={why !== null || !question().length}>Send</button>}
        <ImageButton />
        <span class="dim">{why ?? <span class="only-wide"><kbd>Ctrl</kbd> <kbd>Enter</kbd> sends, <kbd>Esc</kbd> stops</span>}</span>
      </div>
    </form>
  );
}

function ImageButton() {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input ref={input} type="file" accept="image/png,image/jpeg,image/webp,image/gif" multiple hidden aria-label="Images" onChange={(event) => { void addImages([...(event.currentTarget.files ?? [])]); event.currentTarget.value = ''; }} />
      <button type="button" class="button" onClick={() => input.current?.click()}><Icon name="up" />Image</button>
    </>
  );
}

async function addImages(files: File[]) {
  for (const file of files) {
    if (!file.type.startsWith('image/')) toast(`${file.name} is no image`);
    else if (file.size > MOST_IMAGE_BYTES) toast(`${file.name} has more than ${count(MOST_IMAGE_BYTES)} bytes`);
    else if (draft.value.images.length >= MOST_IMAGES) toast(`At most ${MOST_IMAGES} images at once`);
    else {
      const url = await asDataUrl(file);
      write({ images: [...draft.value.images, { name: file.name || 'an image', url }] });
    }
  }
}

const asDataUrl = (file: File) =>
  new Promise<string>((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result as string);
    reader.onerror = () => failed(reader.error ?? new Error('The file cannot be read'));
    reader.readAsDataURL(file);
  });
