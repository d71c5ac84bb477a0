/** A new key: for whom, what it may, what it may cost. The key is shown once. */
import { useState } from 'preact/hooks';
import { call } from '../../api';
import type { CreatedKey, NewKey } from '../../generated/api';
import { Dialog, useSubmit } from '../../parts/Dialog';
import { Check, Field, isOfField } from '../../parts/Field';
import { copy } from '../../parts/Toast';
import { scopeTeam } from '../../scope';
import { may } from '../../session';

export function KeyForm({ teams, close }: { teams: string[]; close: () => void }) {
  const [team, setTeam] = useState(scopeTeam() ?? (teams.length === 1 ? teams[0]! : '')), [name, setName] = useState(''), [models, setModels] = useState(''), [expires, setExpires] = useState(''), [budget, setBudget] = useState(''), [admin, setAdmin] = useState(false);
  const [created, setCreated] = useState<CreatedKey | null>(null);
  const form = useSubmit(async () => {
    const body: NewKey = { team: team.trim(), name: name.trim(), admin };
    const listed = models.split(',').map((each) => each.trim()).filter(Boolean);
    if (listed.length) body.models = listed;
    if (expires) body.expires_at = new Date(`${expires}T23:59:59`).toISOString();
    if (budget) body.budget = { amount_usd: Number(budget), per: 'month' };
    setCreated((await call('POST /keys', { body })).data as CreatedKey);
  });
  if (created) return <ShownKey created={created} close={close} />;
  const known = ['team', 'name', 'models', 'expires_at', 'budget'];
  return (
    <Dialog title="New key" close={close}>
      <form class="form" onSubmit={(event) => { event.preventDefault(); void form.submit(); }}>
        <div class="pair">
          <Field name="team" label="Team" value={team} set={setTeam} required list={teams} hint="A new name makes a new team." error={form.error} />
          <Field name="name" label="Name" value={name} set={setName} hint="Where it is used, such as web shop." error={form.error} />
        </div>
        <Field name="models" label="Models" value={models} set={setModels} placeholder="every model of its team" hint="Names with commas; a * at the end stands for anything." error={form.error} />
        <div class="pair">
          <Field name="expires" params={['expires_at']} label="Expires" type="date" value={expires} set={setExpires} hint="Empty: never." error={form.error} />
          <Field name="budget" label="Budget a month, in dollars" type="number" value={budget} set={setBudget} placeholder="none" error={form.error} />
        </div>
        {may('admin_keys:write') && <Check label="An admin key, which may do everything here" checked={admin} set={setAdmin} />}
        {form.error && !isOfField(form.error, known) && <p class="bad" role="alert">{form.error.message}</p>}
        <div class="dialog-foot">
          <button type="button" class="button" onClick={close}>Cancel</button>
          <button class="button primary" disabled={form.busy || !team.trim()}>{form.busy ? 'Creating …' : 'Create'}</button>
        </div>
      </form>
    </Dialog>
  );
}

/** Shown once: nobody can read it again. */
export function ShownKey({ created, close }: { created: CreatedKey; close: () => void }) {
  return (
    <Dialog title={`The key of ${created.team}`} close={close} kept>
      <p>Copy it now: it is shown this once, and stored nowhere.</p>
      <div class="secret"><code>{created.key}</code><button class="button" onClick={() => void copy(created.key, 'The key')}>Copy</button></div>
      {(created.warnings ?? []).map((each) => <p class="banner" key={each}>{each}</p>)}
      <div class="dialog-foot"><button class="button primary" onClick={close}>Done</button></div>
    </Dialog>
  );
}
