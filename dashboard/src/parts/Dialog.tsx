/** Dialogs: the browser's own, which keeps the focus inside and gives it back. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../api';

export function Dialog(props: { title: string; close: () => void; children: ComponentChildren; kept?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = ref.current!;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return (
    <dialog
      ref={ref}
      aria-label={props.title}
      onCancel={(event) => { event.preventDefault(); props.close(); }}
      onClick={(event) => { if (event.target === event.currentTarget && !props.kept) props.close(); }}
    >
      <div class="dialog-body">
        <h2>{props.title}</h2>
        {props.children}
      </div>
    </dialog>
  );
}

/** Asks before something that cannot be undone; `type` is the name to be typed first. */
export function Confirm(props: {
  title: string;
  children?: ComponentChildren;
  act: string;
  danger?: boolean;
  type?: string;
  disabled?: boolean;
  run: () => Promise<unknown>;
  close: () => void;
}) {
  const [typed, setTyped] = useState('');
  const { busy, error, submit } = useSubmit(async () => {
    await props.run();
    props.close();
  });
  const ready = !props.disabled && (props.type === undefined || typed.trim() === props.type);
  return (
    <Dialog title={props.title} close={props.close}>
      <form class="form" onSubmit={(event) => { event.preventDefault(); if (ready) void submit(); }}>
        {props.children}
        {props.type !== undefined && (
          <div class="field">
            <label for="confirm-name">Type <code>{props.type}</code> to go on</label>
            <input id="confirm-name" class="input" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} autocomplete="off" spellcheck={false} />
          </div>
        )}
        {error && <p class="bad" role="alert">{error.message}</p>}
        <div class="dialog-foot">
          <button type="button" class="button" onClick={props.close}>Cancel</button>
          <button class={`button primary${props.danger ? ' danger' : ''}`} disabled={!ready || busy}>{busy ? 'One moment …' : props.act}</button>
        </div>
      </form>
    </Dialog>
  );
}

/** A change on its way: whether it runs, and what the API said against it. */
export function useSubmit(run: () => Promise<void>) {
  const [busy, setBusy] = useState(false), [error, setError] = useState<ApiError | null>(null);
  const submit = async () => {
    setBusy(true);
    setError(null);
    try {
      await run();
    } catch (fault) {
      setError(fault instanceof ApiError ? fault : new ApiError(0, String(fault), null, null, null, null));
    } finally {
      setBusy(false);
    }
  };
  return { busy, error, submit };
}
