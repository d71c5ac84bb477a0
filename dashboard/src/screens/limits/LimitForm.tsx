/** A new limit or budget. */
import { useState } from 'preact/hooks';
import { call } from '../../api';
import type { NewLimit } from '../../generated/api';
import { Dialog, useSubmit } from '../../parts/Dialog';
import { Check, Choice, Field, isOfField } from '../../parts/Field';
import { toast } from '../../parts/Toast';
import { scopeTeam } from '../../scope';

type Per = NonNullable<NewLimit['per']>;

const RESOURCES: [string, string][] = [['requests', 'requests'], ['tokens', 'tokens, of input and output'], ['input_tokens', 'input tokens'], ['output_tokens', 'output tokens'], ['concurrency', 'requests at once']];

export function LimitForm({ budget, close }: { budget: boolean; close: () => void }) {
  const team = scopeTeam();
  const [name, setName] = useState(''), [amount, setAmount] = useState(''), [resource, setResource] = useState('requests'), [per, setPer] = useState(budget ? 'month' : 'minute'), [kind, setKind] = useState('team'), [subject, setSubject] = useState(team ?? ''), [dry, setDry] = useState(false);
  const form = useSubmit(async () => {
    const scope: Record<string, string> = kind === 'all' ? { all: 'each' } : { [kind]: subject.trim() };
    const common = { name: name.trim(), amount: Number(amount), scope, dry_run: dry };
    if (budget) await call('POST /budgets', { body: { ...common, per: per as Per } });
    else await call('POST /limits', { body: { ...common, resource: resource as NewLimit['resource'], ...(resource === 'concurrency' ? {} : { per: per as Per }) } });
    toast(`${common.name} is in force`);
    close();
  });
  const periods: [string, string][] = budget ? [['day', 'day'], ['week', 'week'], ['month', 'month']] : [['second', 'second'], ['minute', 'minute'], ['hour', 'hour'], ['day', 'day'], ['month', 'month']];
  return (
    <Dialog title={budget ? 'New budget' : 'New limit'} close={close}>
      <form class="form" onSubmit={(event) => { event.preventDefault(); void form.submit(); }}>
        <Field name="name" label="Name" value={name} set={setName} required hint="It is in every refusal." error={form.error} />
        {!budget && <Choice name="resource" label="Of" value={resource} set={setResource} options={RESOURCES} error={form.error} />}
        <div class="pair">
          <Field name="amount" label={budget ? 'Amount, in dollars' : 'At most'} type="number" value={amount} set={setAmount} required error={form.error} />
          {resource !== 'concurrency' && <Choice name="per" label="In any" value={per} set={setPer} options={periods} error={form.error} />}
        </div>
        <div class="pair">
          <Choice name="kind" label="For" value={kind} set={setKind} options={[['team', 'a team'], ['key', 'a key'], ['model', 'a model'], ['all', 'everybody together']]} />
          {kind !== 'all' && <Field name="subject" params={['scope']} label={`Which ${kind}`} value={subject} set={setSubject} required hint="each counts every one by itself." error={form.error} />}
        </div>
        <Check label="Only count: refuse nothing" checked={dry} set={setDry} />
        {form.error && !isOfField(form.error, ['name', 'amount', 'resource', 'per', 'scope']) && <p class="bad" role="alert">{form.error.message}</p>}
        <div class="dialog-foot"><button type="button" class="button" onClick={close}>Cancel</button><button class="button primary" disabled={form.busy}>Create</button></div>
      </form>
    </Dialog>
  );
}
