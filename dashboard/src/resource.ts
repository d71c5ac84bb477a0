/** What a view has asked for: loading, here, stale or failed. What was here stays, dimmed, while something newer is on its way. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, signIns } from './api';

export interface Resource<T> {
  data: T | undefined;
  error: ApiError | undefined;
  /** True while an answer is awaited; `data` may be an earlier one. */
  loading: boolean;
  reload: () => void;
  /** Puts what a change answered in the place of what was asked for. */
  set: (data: T) => void;
}

const MAX_KEPT = 60;
const kept = new Map<string, unknown>();

function keep(key: string, data: unknown) {
  kept.delete(key);
  kept.set(key, data);
  if (kept.size > MAX_KEPT) kept.delete(kept.keys().next().value!);
}

/** Forgets what other people's sessions have shown. */
export function forgetAll() {
  kept.clear();
}

interface State<T> {
  key: string | null;
  data: T | undefined;
  error: ApiError | undefined;
  loading: boolean;
}

/** `key` null: nothing is asked for. `everySeconds`: ask again, while the page is visible. */
export function useResource<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>, everySeconds = 0): Resource<T> {
  const [state, setState] = useState<State<T>>(() => ({ key, data: key === null ? undefined : (kept.get(key) as T | undefined), error: undefined, loading: key !== null }));
  const [round, setRound] = useState(0);
  const loading = useRef(load);
  loading.current = load;
  const signedIn = signIns.value;
  useEffect(() => {
    if (key === null) {
      setState({ key, data: undefined, error: undefined, loading: false });
      return;
    }
    const abort = new AbortController();
    setState((before) => ({ key, data: (kept.get(key) as T | undefined) ?? before.data, error: undefined, loading: true }));
    loading.current(abort.signal).then(
      (data) => {
        keep(key, data);
        if (!abort.signal.aborted) setState({ key, data, error: undefined, loading: false });
      },
      (fault: unknown) => {
        if (abort.signal.aborted) return;
        const error = fault instanceof ApiError ? fault : new ApiError(0, `The page failed: ${String(fault)}`, null, null, null, null);
        setState((before) => ({ ...before, error, loading: false }));
      },
    );
    return () => abort.abort();
  }, [key, round, signedIn]);
  useEffect(() => {
    if (!everySeconds || key === null) return;
    const timer = setInterval(() => document.visibilityState === 'visible' && setRound((n) => n + 1), everySeconds * 1000);
    return () => clearInterval(timer);
  }, [everySeconds, key]);
  // In the render in which the key changes, the effect has not run yet.
  const isNew = state.key !== key;
  const data = isNew && key !== null ? ((kept.get(key) as T | undefined) ?? state.data) : state.data;
  return {
    data,
    error: isNew ? undefined : state.error,
    loading: state.loading || (isNew && key !== null),
    reload: () => setRound((n) => n + 1),
    set: (newer) => {
      if (key !== null) keep(key, newer);
      setState({ key, data: newer, error: undefined, loading: false });
    },
  };
}
