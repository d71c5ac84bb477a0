/** The head of a view: its name, what the numbers below count, and what can be done. */
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';

export function Head(props: { title: string; tags?: ComponentChildren; about?: ComponentChildren; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${props.title} · Narthex`;
  }, [props.title]);
  return (
    <div class="head">
      <h1>{props.title}</h1>
      {props.tags}
      {props.about && <p class="about">{props.about}</p>}
      {props.children && <><span class="grow" /><div class="actions">{props.children}</div></>}
    </div>
  );
}

export function When({ at, words }: { at: string; words: string }) {
  return <time dateTime={at} title={`${at.replace('T', ' ').slice(0, 19)} UTC`}>{words}</time>;
}
