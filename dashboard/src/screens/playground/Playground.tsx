/** The playground: any model or function that one may use, streamed, two side by side, and the same request for a program. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, call } from '../../api';
import { Head } from '../../parts/Head';
import { go, here } from '../../router';
import { useResource } from '../../resource';
import { session } from '../../session';
import { Code } from './Code';
import { Composer } from './Composer';
import { Settings } from './Settings';
import { Column } from './Column';
import { setting, clear, isComparing, modelOf, startFor, turns } from './state';
import type { Side } from './state';

interface Usable {
  id: string;
}

/** Keeps the newest words in view while they are written, unless somebody has scrolled away from them. */
function useFollowing() {
  const shown = useRef(0), now = turns.value;
  useEffect(() => {
    const number = now[0].length + now[1].length, isNew = number > shown.current;
    shown.current = number;
    const last = [...document.querySelectorAll('.play-column .message:last-child')].sort((a, b) => b.getBoundingClientRect().bottom - a.getBoundingClientRect().bottom)[0];
    const beyond = last ? last.getBoundingClientRect().bottom - (document.querySelector('.play-composer')?.getBoundingClientRect().top ?? innerHeight) : 0;
    if (last && beyond > 0 && (isNew || beyond < NEAR)) scrollBy(0, beyond + 16);
  }, [now]);
}

const NEAR = 160;

export function Playground() {
  startFor(session.value?.id);
  const [fault, setFault] = useState<ApiError | null>(null), [code, setCode] = useState(false);
  const key = setting('as'), needsKey = !key && session.value?.kind !== 'key' && session.value?.kind !== 'caller';
  const models = useResource(needsKey ? null : `own-models|${session.value?.id}|${key}`, async (signal) => {
    const answer = await call('GET /own/models', { signal, ...(key ? { headers: { 'x-narthex-key': key } } : {}) });
    return (answer.data as unknown as { data: Usable[] }).data.map((each) => each.id);
  });
  const names = models.data ?? [], isBegun = turns.value.some((each) => each.length > 0), compares = isComparing();
  const chosenFor = useRef(key);
  useEffect(() => {
    if (!models.data || models.loading) return;
    // The first name, so that somebody who has just come can write at once, and after another key was chosen, which may use others.
    const isChanged = chosenFor.current !== key;
    chosenFor.current = key;
    if (names.length && (!modelOf(0) || (isChanged && !names.includes(modelOf(0))))) go(here({ model: names[0]! }), { replace: true, keepScroll: true });
  }, [models.data, models.loading, key]);
  useFollowing();
  const sides: Side[] = compares ? [0, 1] : [0];
  const shown = fault ?? sides.map((side) => turns.value[side].at(-1)?.answer.error ?? null).find((each) => each?.param != null) ?? null;
  return (
    <>
      <Head title="Playground" about="Counted and limited like any request of the key">
        <button class="button" aria-pressed={compares} onClick={() => go(here(compares ? { with: null, compare: null } : { with: names.find((each) => each !== modelOf(0)) ?? modelOf(0), compare: '1' }), { replace: true, keepScroll: true })}>Two side by side</button>
        <button class="button" onClick={() => setCode(true)}>Code</button>
        <button class="button" disabled={!isBegun} onClick={() => { clear(); setFault(null); }}>New conversation</button>
      </Head>
      <div class="play">
        <Settings error={shown} keysError={models.error ?? null} />
        <div class="play-talk">
          {models.error && !models.data && <p class="banner" role="alert"><span class="wrap">{models.error.message} A name can be typed all the same.</span><button class="button small" onClick={models.reload}>Try again</button></p>}
          <div class={compares ? 'columns even' : 'rows-of'}>
            {sides.map((side) => <Column key={side} side={side} models={names} error={shown} />)}
          </div>
          <Composer sides={sides} needsKey={needsKey} fault={fault} setFault={setFault} />
        </div>
      </div>
      {code && <Code sides={sides} close={() => setCode(false)} />}
    </>
  );
}
