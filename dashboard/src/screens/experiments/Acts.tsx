/** What can be done with an experiment. Each says first what it will change, as the API's dry run has it. */
import { useState } from 'preact/hooks';
import { call } from '../../api';
import type { DryRun, ExperimentResults, ShownExperiment } from '../../generated/api';
import { percent } from '../../format';
import { Confirm } from '../../parts/Dialog';
import { Diff } from '../../parts/Diff';
import { Check, Choice, Field } from '../../parts/Field';
import { Fault, Skeleton } from '../../parts/States';
import { toast } from '../../parts/Toast';
import { useResource } from '../../resource';
import { may } from '../../session';
import { primaryOf } from './verdict';

type Act = 'start' | 'ramp' | 'stop' | 'promote';

export function Acts({ experiment, results, changed }: { experiment: ShownExperiment; results: ExperimentResults | null; changed: () => void }) {
  const [act, setAct] = useState<Act | null>(null);
  const better = results ? primaryOf(results)?.comparisons.find((each) => each.verdict === 'better')?.arm : undefined;
  const done = (text: string) => { toast(text); changed(); };
  const close = () => setAct(null), props = { experiment, close, done };
  return (
    <>
      {experiment.status === 'draft' && <button class="button primary" onClick={() => setAct('start')}>Start …</button>}
      {experiment.status === 'running' && (
        <>
          <button class="button" onClick={() => setAct('ramp')}>Ramp …</button>
          <button class="button" onClick={() => setAct('stop')}>Stop …</button>
          <button class={`button${better ? ' primary' : ''}`} onClick={() => setAct('promote')}>Promote {better ?? 'an arm'} …</button>
        </>
      )}
      {act === 'start' && <Start {...props} />}
      {act === 'ramp' && <Ramp {...props} />}
      {act === 'stop' && <StopArm {...props} />}
      {act === 'promote' && <PromoteArm {...props} better={better ?? null} />}
    </>
  );
}

interface ActProps {
  experiment: ShownExperiment;
  close: () => void;
  done: (text: string) => void;
}

function Start({ experiment, close, done }: ActProps) {
  const path = { name: experiment.name };
  return (
    <Confirm title={`Start ${experiment.name}`} act="Start" close={close} run={async () => { await call('POST /experiments/{name}/start', { path }); done('The experiment has begun'); }}>
      <p>From now on, {percent(experiment.settings?.enrolment ?? 1, 0)} of new units are assigned to {experiment.arms.join(', ')}.</p>
      <Preview id={`start|${experiment.name}`} ask={(signal) => call('POST /experiments/{name}/start', { path, query: { dry_run: true }, signal })} />
    </Confirm>
  );
}

function Ramp({ experiment, close, done }: ActProps) {
  const [text, setText] = useState(String(Math.round((experiment.version?.enrolment ?? 1) * 100)));
  const share = Number(text) / 100, path = { name: experiment.name }, valid = text !== '' && share >= 0 && share <= 1;
  return (
    <Confirm title={`Ramp ${experiment.name}`} act="Set" disabled={!valid} close={close} run={async () => { await call('POST /experiments/{name}/enrol', { path, body: { enrolment: share } }); done(`${percent(share, 0)} of units take part`); }}>
      <p>The share of units that take part. Those within keep their arms; the split between arms stays.</p>
      <Field name="enrolment" label="Per cent of units" type="number" value={text} set={setText} required />
      {valid && <Preview id={`enrol|${experiment.name}|${share}`} ask={(signal) => call('POST /experiments/{name}/enrol', { path, body: { enrolment: share }, query: { dry_run: true }, signal })} />}
    </Confirm>
  );
}

function StopArm({ experiment, close, done }: ActProps) {
  const [arm, setArm] = useState(''), [now, setNow] = useState(false);
  const path = { name: experiment.name }, body = { arm: arm || null, ...(arm ? { now } : {}) };
  return (
    <Confirm title={`Stop ${experiment.name}`} act={arm ? `Stop ${arm}` : 'End the experiment'} danger type={arm ? undefined : experiment.name} close={close} run={async () => { await call('POST /experiments/{name}/stop', { path, body }); done(arm ? `${arm} gets no new units` : 'The experiment has ended'); }}>
      <Choice name="arm" label="What to stop" value={arm} set={setArm} options={[['', 'The whole experiment'], ...experiment.arms.map((each): [string, string] => [each, `The arm ${each}`])]} />
      {arm && <Check label="At once, also for units that it has already (they change arms, and no longer count)" checked={now} set={setNow} />}
      <Preview id={`stop|${experiment.name}|${JSON.stringify(body)}`} ask={(signal) => call('POST /experiments/{name}/stop', { path, body, query: { dry_run: true }, signal })} />
    </Confirm>
  );
}

function PromoteArm({ experiment, close, done, better }: ActProps & { better: string | null }) {
  const [arm, setArm] = useState(better ?? experiment.arms.find((each) => each !== experiment.control) ?? ''), [force, setForce] = useState(false), [reason, setReason] = useState('');
  const path = { name: experiment.name }, body = { arm, ...(force ? { force, reason: reason || null } : {}) };
  return (
    <Confirm title={`Promote an arm of ${experiment.name}`} act={`Promote ${arm}`} type={force ? experiment.name : undefined} danger={force} close={close} run={async () => { await call('POST /experiments/{name}/promote', { path, body }); done(`${arm} is promoted`); }}>
      <p>The experiment ends, and every request is served by this arm.</p>
      <Choice name="arm" label="Arm" value={arm} set={setArm} options={experiment.arms.map((each): [string, string] => [each, each === experiment.control ? `${each} (control)` : each])} />
      {may('experiments:force') && <Check label="Even if its conditions are not met" checked={force} set={setForce} />}
      {force && <Field name="reason" label="Why" value={reason} set={setReason} required hint="It is kept in the log." />}
      <Preview id={`promote|${experiment.name}|${arm}|${force}`} ask={(signal) => call('POST /experiments/{name}/promote', { path, body: force ? { ...body, reason: reason || 'preview' } : body, query: { dry_run: true }, signal })} />
    </Confirm>
  );
}

/** What the same request would change now; or why it is refused. */
function Preview({ id, ask }: { id: string; ask: (signal: AbortSignal) => Promise<{ data: unknown }> }) {
  const found = useResource(`preview|${id}`, async (signal) => (await ask(signal)).data as DryRun);
  if (found.error) return <Fault error={found.error} />;
  if (!found.data) return <Skeleton lines={3} />;
  return (
    <div class="rows-of">
      {found.data.warnings.map((each) => <p class="banner" key={each}>{each}</p>)}
      {found.data.changes.length === 0 ? <p class="note">It changes nothing.</p> : found.data.changes.slice(0, 4).map((each) => <div key={each.resource + each.name}><h3>{each.resource} {each.name}</h3><Diff before={each.before} after={each.after} /></div>)}
    </div>
  );
}
