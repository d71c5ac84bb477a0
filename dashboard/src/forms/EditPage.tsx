/** One entry of the configuration as a form: checked by the API, shown as a difference, then saved; of two editors neither loses anything. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { ApiError } from '../api';
import type { DryRun } from '../generated/api';
import { Confirm, useSubmit } from '../parts/Dialog';
import { Diff } from '../parts/Diff';
import { Head } from '../parts/Head';
import { Empty, Fault, Skeleton } from '../parts/States';
import { toast } from '../parts/Toast';
import { forgetAll, useResource } from '../resource';
import { go, to } from '../router';
import { may } from '../session';
import { Conflict } from './Conflict';
import { Fields } from './Groups';
import { emptyOf } from './schema';
import { createOf, deleteEntry, readEntry, schemaOf, SECTIONS, writeEntry } from './sections';
import type { SectionName } from './sections';
import { useNames } from './names';
import type { Draft } from './values';

export interface Extra {
  draft: Draft;
  set: (draft: Draft) => void;
}

/** `keys` null: a new one. `extra`: what a section has beside its fields, such as the test of a provider. */
export function EditPage(props: { section: SectionName; keys: string[] | null; extra?: (extra: Extra) => ComponentChildren; start?: Draft }) {
  const { noun } = SECTIONS[props.section], id = props.keys?.join('/') ?? '', begun = useRef<{ entry: Draft; etag: string | null } | null>(null);
  const found = useResource(props.keys ? `entry|${props.section}|${id}` : null, (signal) => readEntry(props.section, props.keys!, signal));
  if (!may('config:write')) return <><Head title={props.keys ? id : `New ${noun}`} /><section class="panel"><Empty title="Your role does not change the configuration"><p class="note">That takes the permission config:write.</p></Empty></section></>;
  if (!props.keys) return <Form {...props} id={id} base={{ ...emptyOf(schemaOf(createOf(props.section))), ...props.start }} etag={null} />;
  // What was kept of an earlier visit may be of an older state, and a form must begin with the newest. Then it stays, whatever is loaded again:
  // a session that is renewed must not empty it.
  if (!begun.current && found.data && !found.loading && !found.error) begun.current = found.data;
  if (!begun.current) return <><Head title={id} />{found.error ? <Fault error={found.error} retry={found.reload} /> : <section class="panel"><Skeleton lines={10} /></section>}</>;
  return <Form {...props} id={id} base={begun.current.entry} etag={begun.current.etag} />;
}

interface State {
  base: Draft;
  etag: string | null;
  draft: Draft;
}

function Form(props: { section: SectionName; keys: string[] | null; id: string; base: Draft; etag: string | null; extra?: (extra: Extra) => ComponentChildren }) {
  const section = SECTIONS[props.section], schema = schemaOf(createOf(props.section)), isNew = props.keys === null;
  const [state, setState] = useState<State>({ base: props.base, etag: props.etag, draft: props.base });
  const [review, setReview] = useState<DryRun | null>(null), [theirs, setTheirs] = useState<{ entry: Draft; etag: string | null } | null>(null), [removing, setRemoving] = useState(false);
  const form = useRef<HTMLFormElement>(null), names = useNames(props.section);
  const list = to(...section.list);
  const set = (draft: Draft) => setState({ ...state, draft });
  /** A conflict is answered by what is stored now; any other refusal is shown at its field. */
  const guarded = async (run: () => Promise<void>) => {
    try {
      await run();
    } catch (fault) {
      if (!(fault instanceof ApiError) || fault.status !== 412 || isNew) throw fault;
      setReview(null);
      setTheirs(await readEntry(props.section, props.keys!));
    }
  };
  const check = useSubmit(() => guarded(async () => setReview(await writeEntry(props.section, props.keys, state.draft, state.etag, true))));
  const save = useSubmit(() => guarded(async () => {
    const saved = await writeEntry(props.section, props.keys, state.draft, state.etag, false);
    forgetAll();
    toast([isNew ? `The ${section.noun} is created` : `${props.id} is changed`, ...(saved.warnings ?? [])].join('. '));
    go(section.shown ? to(section.shown(section.keys.map((name) => String(state.draft[name] ?? '')))) : list);
  }));
  const error = save.error ?? check.error;
  useEffect(() => {
    if (!error) return;
    setReview(null);
    const wrong = form.current?.querySelector<HTMLElement>('[aria-invalid=true], .fault');
    (wrong?.matches('.fault') ? wrong.closest<HTMLElement>('fieldset') : wrong)?.scrollIntoView({ block: 'center' });
    wrong?.focus();
  }, [error]);
  const isShown = error?.param != null && form.current?.querySelector('.fault') != null;
  return (
    <>
      <Head title={isNew ? `New ${section.noun}` : props.id} about={isNew ? undefined : `changing a ${section.noun}`}>
        <a class="button" href={list}>Back</a>
        {!isNew && <button class="button danger" onClick={() => setRemoving(true)}>Delete …</button>}
      </Head>
      {theirs && <Conflict base={state.base} mine={state.draft} theirs={theirs.entry} choose={(draft) => { setState({ base: theirs.entry, etag: theirs.etag, draft }); setTheirs(null); }} />}
      <form ref={form} class="panel form entry-form" novalidate aria-label={isNew ? `New ${section.noun}` : `The ${section.noun} ${props.id}`} onSubmit={(event) => { event.preventDefault(); void check.submit(); }} hidden={theirs !== null}>
        <fieldset disabled={review !== null} class="form">
          <legend class="sr">Settings</legend>
          <Fields schema={schema} path="" value={state.draft} set={set} first={section.first} locked={isNew ? [] : section.keys} error={error} suggestions={names} />
        </fieldset>
        {props.extra?.({ draft: state.draft, set })}
        {error && !isShown && <p class="bad" role="alert">{error.message}</p>}
        {review && <Review review={review} />}
        <div class="dialog-foot">
          {review ? (
            <>
              <button type="button" class="button" onClick={() => setReview(null)}>Go on editing</button>
              <button type="button" class="button primary" disabled={save.busy || review.changes.length === 0} onClick={() => void save.submit()}>{save.busy ? 'Saving …' : isNew ? 'Create' : 'Save'}</button>
            </>
          ) : <button class="button primary" disabled={check.busy}>{check.busy ? 'Checking …' : 'Check and review'}</button>}
        </div>
      </form>
      {removing && (
        <Confirm title={`Delete ${props.id}`} act="Delete" danger type={props.keys![0]!} close={() => setRemoving(false)} run={async () => { await deleteEntry(props.section, props.keys!, state.etag); forgetAll(); toast(`${props.id} is deleted`); go(list); }}>
          <p>Requests stop using this {section.noun} at once. What was recorded stays, and the history can bring it back.</p>
        </Confirm>
      )}
    </>
  );
}

function Review({ review }: { review: DryRun }) {
  const ref = useRef<HTMLElement>(null);
  useEffect(() => { ref.current?.focus(); ref.current?.scrollIntoView({ block: 'nearest' }); }, []);
  return (
    <section ref={ref} tabIndex={-1} class="review" aria-label="What would change">
      <h2>{review.changes.length ? 'This would change' : 'Nothing would change'}</h2>
      {review.warnings.map((each) => <p class="banner" key={each}>{each}</p>)}
      {review.changes.map((each) => <div key={each.resource + each.name}><h3>{each.action.replaceAll('_', ' ')} {each.resource.replaceAll('_', ' ')} {each.name}</h3><Diff before={each.before} after={each.after} /></div>)}
    </section>
  );
}
