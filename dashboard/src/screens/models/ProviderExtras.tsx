/** Beside the form of a provider: a secret of its own, which is stored and never shown, and a test of what the form has. */
import { useState } from 'preact/hooks';
import { call } from '../../api';
import type { Operations, ProviderCheck } from '../../generated/api';
import type { Extra } from '../../forms/EditPage';
import { Dialog, useSubmit } from '../../parts/Dialog';
import { Field, isOfField } from '../../parts/Field';
import { Skeleton } from '../../parts/States';
import { toast } from '../../parts/Toast';
import { may } from '../../session';

type Settings = NonNullable<Operations['POST /providers/{name}/test']['body']['settings']>;

export function ProviderExtras({ draft, set }: Extra) {
  const [storing, setStoring] = useState(false), [found, setFound] = useState<ProviderCheck | null>(null);
  const name = String(draft['name'] ?? '');
  const test = useSubmit(async () => {
    setFound(null);
    const { name: _, ...settings } = draft;
    setFound((await call('POST /providers/{name}/test', { path: { name: name || 'new' }, body: { settings: settings as unknown as Settings } })).data);
  });
  return (
    <section class="review" aria-label="Credential and test">
      <p class="actions">
        <button type="button" class="button" disabled={test.busy} onClick={() => void test.submit()}>{test.busy ? 'Testing …' : 'Test these settings'}</button>
        {may('credentials:write') && <button type="button" class="button" onClick={() => setStoring(true)}>Store a secret …</button>}
        <small>The test sends one cheap request, and saves nothing.</small>
      </p>
      {test.error && <p class="bad" role="alert">{test.error.message}</p>}
      {test.busy && <Skeleton lines={2} />}
      {found && <CheckResults found={found} />}
      {storing && <SecretDialog provider={name} close={() => setStoring(false)} stored={(credential) => { set({ ...draft, credential }); setStoring(false); }} />}
    </section>
  );
}

export function CheckResults({ found }: { found: ProviderCheck }) {
  return (
    <div class="rows-of" role="status">
      <p class="strong">{found.works ? 'It works.' : 'It does not work.'}</p>
      <ul class="findings">{found.results.map((each, index) => <li key={index}><span class={`severity ${each.outcome === 'works' ? 'ok' : 'bad'}`}>{each.outcome === 'works' ? 'works' : 'fails'}</span><span class="wrap"><b class="mono">{each.address}</b> {each.message}{each.latency_ms != null && ` ${each.latency_ms} ms.`}{each.advice && <small>{each.advice}</small>}</span></li>)}</ul>
    </div>
  );
}

/** Write-only: what was stored can be replaced, and by nobody read. */
function SecretDialog({ provider, close, stored }: { provider: string; close: () => void; stored: (reference: string) => void }) {
  const [name, setName] = useState(provider), [value, setValue] = useState('');
  const form = useSubmit(async () => {
    await call('PUT /credentials/{name}', { path: { name: name.trim() }, body: { value } });
    toast(`The secret is stored as ${name.trim()}`);
    stored(`store:${name.trim()}`);
  });
  return (
    <Dialog title="Store a secret" close={close}>
      <div class="form" onKeyDown={(event) => { if (event.key === 'Enter' && (event.target as Element).tagName === 'INPUT') { event.preventDefault(); if (name.trim() && value) void form.submit(); } }}>
        <p class="note">It is encrypted before it is stored, and nobody can read it again, here or by the API. Providers name it as <code>store:NAME</code>.</p>
        <Field name="credential-name" params={['name']} label="Name" value={name} set={setName} required error={form.error} />
        <Field name="credential-value" params={['value']} label="Secret" type="password" value={value} set={setValue} required error={form.error} />
        {form.error && !isOfField(form.error, ['name', 'value']) && <p class="bad" role="alert">{form.error.message}</p>}
        <div class="dialog-foot">
          <button type="button" class="button" onClick={close}>Cancel</button>
          <button type="button" class="button primary" disabled={form.busy || !name.trim() || !value} onClick={() => void form.submit()}>{form.busy ? 'Storing …' : 'Store'}</button>
        </div>
      </div>
    </Dialog>
  );
}
