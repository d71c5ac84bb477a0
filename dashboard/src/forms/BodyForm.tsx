/** A form for what an operation creates at once, such as a replay: checked by the API, what it would do said, then sent. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../api';
import type { DryRun } from '../generated/api';
import { useSubmit } from '../parts/Dialog';
import { Head } from '../parts/Head';
import { pretty } from '../parts/Text';
import { Fields } from './Groups';
import { emptyOf } from './schema';
import { schemaOf } from './sections';
import type { Draft } from './values';

export interface BodyFormProps {
  operation: string;
  title: string;
  act: string;
  first: string[];
  start?: Draft;
  suggestions?: Record<string, string[]>;
  back: string;
  run: (draft: Draft, dryRun: boolean) => Promise<DryRun | null>;
}

export function BodyForm(props: BodyFormProps) {
  const schema = schemaOf(props.operation), form = useRef<HTMLFormElement>(null), review = useRef<HTMLElement>(null);
  const [draft, setDraft] = useState<Draft>(() => ({ ...emptyOf(schema), ...props.start })), [found, setFound] = useState<DryRun | null>(null);
  const check = useSubmit(async () => setFound(await props.run(draft, true)));
  const send = useSubmit(async () => { await props.run(draft, false); });
  const error: ApiError | null = send.error ?? check.error;
  useEffect(() => {
    if (!error) return;
    setFound(null);
    form.current?.querySelector<HTMLElement>('[aria-invalid=true]')?.focus();
  }, [error]);
  useEffect(() => { if (found) review.current?.focus(); }, [found]);
  const isShown = error?.param != null && form.current?.querySelector('.fault') != null;
  return (
    <>
      <Head title={props.title}><a class="button" href={props.back}>Back</a></Head>
      <form ref={form} class="panel form entry-form" novalidate aria-label={props.title} onSubmit={(event) => { event.preventDefault(); void check.submit(); }}>
        <fieldset disabled={found !== null} class="form">
          <legend class="sr">Settings</legend>
          <Fields schema={schema} path="" value={draft} set={setDraft} first={props.first} error={error} suggestions={props.suggestions ?? {}} />
        </fieldset>
        {error && !isShown && <p class="bad" role="alert">{error.message}</p>}
        {found && (
          <section ref={review} tabIndex={-1} class="review" aria-label="What would happen">
            <h2>This would happen</h2>
            {found.warnings.map((each) => <p class="banner" key={each}>{each}</p>)}
            {found.changes.map((each) => <div key={each.resource + each.name}><h3>{each.action.replaceAll('_', ' ')} {each.resource.replaceAll('_', ' ')} {each.name}</h3><pre class="code" tabIndex={0}>{pretty(each.after)}</pre></div>)}
          </section>
        )}
        <div class="dialog-foot">
          {found ? (
            <>
              <button type="button" class="button" onClick={() => setFound(null)}>Go on editing</button>
              <button type="button" class="button primary" disabled={send.busy} onClick={() => void send.submit()}>{send.busy ? 'One moment …' : props.act}</button>
            </>
          ) : <button class="button primary" disabled={check.busy}>{check.busy ? 'Checking …' : 'Check and review'}</button>}
        </div>
      </form>
    </>
  );
}
