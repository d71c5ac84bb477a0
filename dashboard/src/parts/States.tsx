/** What a panel shows that has nothing to show yet, nothing at all, or a failure. One failing panel never blanks the page. */
import type { ComponentChildren } from 'preact';
import type { ApiError } from '../api';
import type { Resource } from '../resource';
import { session } from '../session';

export function Skeleton({ lines = 6 }: { lines?: number }) {
  return (
    <div class="skeleton" role="status">
      <span class="sr">Loading</span>
      {Array.from({ length: lines }, (_, index) => <i key={index} />)}
    </div>
  );
}

export function Fault({ error, retry }: { error: ApiError; retry?: () => void }) {
  const roles = session.value?.roles.map((each) => (each.team ? `${each.role} in ${each.team}` : each.role)).join(', ');
  return (
    <section class="panel fault-box" role="alert">
      <div>
        <b>{error.status === 403 ? 'Your role does not show this' : error.status === 404 ? 'There is no such thing' : 'This could not be loaded'}</b>
        <p class="note">{error.message}{error.status === 403 && roles ? ` You are: ${roles}.` : ''}</p>
        {error.requestId && <p class="note mono">request {error.requestId}</p>}
      </div>
      {retry && <button class="button" onClick={retry}>Try again</button>}
    </section>
  );
}

export function Empty(props: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state">
      <h2>{props.title}</h2>
      {props.children}
    </div>
  );
}

/** Shows a resource: a skeleton, its failure, or its content, dimmed while something newer is awaited. */
export function Loaded<T>(props: { from: Resource<T>; lines?: number; children: (data: T) => ComponentChildren }) {
  const { data, error, loading, reload } = props.from;
  if (data === undefined) {
    if (error) return <Fault error={error} retry={reload} />;
    return <section class="panel"><Skeleton lines={props.lines ?? 6} /></section>;
  }
  return (
    <>
      {error && <Stale error={error} retry={reload} />}
      <div class={loading ? 'rows-of dimmed' : 'rows-of'} aria-busy={loading}>{props.children(data)}</div>
    </>
  );
}

export function Stale({ error, retry }: { error: ApiError; retry: () => void }) {
  return (
    <div class="banner" role="status">
      <span class="wrap">What you see is older: {error.message}</span>
      <button class="button small" onClick={retry}>Try again</button>
    </div>
  );
}
