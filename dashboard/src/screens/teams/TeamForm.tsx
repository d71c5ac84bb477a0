/** A new team, or what of a team's own can be changed. */
import { useState } from 'preact/hooks';
import { call } from '../../api';
import type { Team } from '../../generated/api';
import { Dialog, useSubmit } from '../../parts/Dialog';
import { Choice, Field, isOfField } from '../../parts/Field';
import { toast } from '../../parts/Toast';

const CONTENT: [string, string][] = [['full', 'all of it'], ['masked', 'with personal data masked'], ['redacted', 'lengths alone'], ['none', 'nothing']];

export function TeamForm({ team, etag, close }: { team?: Team; etag?: string | null; close: () => void }) {
  const [name, setName] = useState(team?.name ?? ''), [content, setContent] = useState<string>(team?.content ?? 'full'), [models, setModels] = useState((team?.models ?? []).join(', ')), [priority, setPriority] = useState(String(team?.priority ?? 0));
  const form = useSubmit(async () => {
    const listed = models.split(',').map((each) => each.trim()).filter(Boolean);
    const body = { content: content as Team['content'], models: listed.length ? listed : null, priority: Number(priority) };
    if (team) await call('PATCH /teams/{name}', { path: { name: team.name }, body, ifMatch: etag ?? null });
    else await call('POST /teams', { body: { name: name.trim(), ...body } });
    toast(team ? `${team.name} is changed` : `${name.trim()} is created`);
    close();
  });
  return (
    <Dialog title={team ? `Change ${team.name}` : 'New team'} close={close}>
      <form class="form" onSubmit={(event) => { event.preventDefault(); void form.submit(); }}>
        {!team && <Field name="name" label="Name" value={name} set={setName} required error={form.error} />}
        <Choice name="content" label="What is kept of what is written" value={content} set={setContent} options={CONTENT} error={form.error} />
        <Field name="models" label="Models" value={models} set={setModels} placeholder="every model" hint="Names with commas. No key of the team may use others." error={form.error} />
        <Field name="priority" label="Priority" type="number" value={priority} set={setPriority} hint="From −100 to 100: where requests wait, the highest go first." error={form.error} />
        {form.error && !isOfField(form.error, ['name', 'content', 'models', 'priority']) && <p class="bad" role="alert">{form.error.message}{form.error.status === 412 && ' Somebody else changed it meanwhile: close this, and look at it as it is now.'}</p>}
        <div class="dialog-foot">
          <button type="button" class="button" onClick={close}>Cancel</button>
          <button class="button primary" disabled={form.busy}>{team ? 'Save' : 'Create'}</button>
        </div>
      </form>
    </Dialog>
  );
}
