/** Somebody else has changed what is being edited: what they changed, where both did, and three ways on. */
import { useEffect, useRef } from 'preact/hooks';
import { Diff } from '../parts/Diff';
import { labelOf } from './schema';
import { merge } from './values';
import type { Draft } from './values';

export function Conflict({ base, mine, theirs, choose }: { base: Draft; mine: Draft; theirs: Draft; choose: (draft: Draft) => void }) {
  const ref = useRef<HTMLElement>(null), merged = merge(base, mine, theirs);
  useEffect(() => ref.current?.focus(), []);
  return (
    <section ref={ref} tabIndex={-1} class="panel form" role="alert" aria-label="A conflict">
      <h2>Somebody else has changed this meanwhile</h2>
      <p class="note">Nothing of yours is lost, and nothing is saved yet. They changed {merged.theirs.map(labelOf).join(', ') || 'nothing that is set here'}:</p>
      <Diff before={base} after={theirs} />
      {merged.clashes.length > 0 && <p class="banner">You both changed {merged.clashes.map(labelOf).join(', ')}: with your changes, yours {merged.clashes.length === 1 ? 'counts' : 'count'}.</p>}
      <div class="dialog-foot">
        <button class="button" onClick={() => choose(theirs)}>Take theirs, leave mine</button>
        <button class="button primary" onClick={() => choose(merged.draft)}>Make my changes to theirs</button>
      </div>
    </section>
  );
}
