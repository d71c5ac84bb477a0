/** A form in which somebody says how good a request was, or its conversation, by a metric. */
import { useState } from 'preact/hooks';
import { ApiError, call, get } from '../../api';
import type { FeedbackEvent, InferenceWithContent, NewFeedback } from '../../generated/api';
import { Area, Choice, Field, isOfField } from '../../parts/Field';
import { Fault } from '../../parts/States';
import { toast } from '../../parts/Toast';
import { useResource } from '../../resource';
import { may } from '../../session';

type Metric = { name: string; kind: string; level: string };

const BUILT_IN: Metric[] = [
  { name: 'comment', kind: 'comment', level: 'inference' },
  { name: 'demonstration', kind: 'demonstration', level: 'inference' },
];
const ABOUT: Record<string, string> = { comment: 'A text', demonstration: 'What the response should have been', float: 'A number', boolean: '' };

export function FeedbackForm({ row, known, close, written }: { row: InferenceWithContent; known: FeedbackEvent[]; close: () => void; written: (id: string) => void }) {
  const configured = useResource(may('config:read') ? 'metrics' : null, (signal) => get('GET /metrics', { query: { limit: 200, sort: 'name' }, signal }));
  const [name, setName] = useState<string | null>(null), [value, setValue] = useState(''), [error, setError] = useState<ApiError | null>(null), [busy, setBusy] = useState(false);
  // Who does not see the configuration has the metrics that somebody used here.
  const used = known.flatMap((each) => (each.metric && each.kind ? [{ name: each.metric, kind: each.kind, level: each.level ?? 'inference' }] : []));
  const metrics = [...new Map([...BUILT_IN, ...used, ...(configured.data?.data ?? [])].map((each) => [each.name, each])).values()].sort((a, b) => Number(BUILT_IN.includes(a)) - Number(BUILT_IN.includes(b)));
  const metric = metrics.find((each) => each.name === name) ?? metrics[0]!;
  const send = async () => {
    setBusy(true);
    setError(null);
    try {
      const body: NewFeedback = { metric: metric.name, value: metric.kind === 'boolean' ? value === 'yes' : metric.kind === 'float' ? Number(value) : value };
      const { id } = (await call('POST /inferences/{id}/feedback', { path: { id: row.id }, body })).data;
      toast(`Your ${metric.name} is taken`);
      written(id);
    } catch (fault) {
      setError(fault instanceof ApiError ? fault : new ApiError(0, String(fault), null, null, null, null));
      setBusy(false);
    }
  };
  const field = { name: 'feedback-value', label: 'Value', value, set: setValue, error, params: ['value'], hint: ABOUT[metric.kind] };
  return (
    <form class="form" aria-label="Write feedback" onSubmit={(event) => { event.preventDefault(); void send(); }}>
      <Choice name="feedback-metric" label="Metric" value={metric.name} set={(chosen) => { setName(chosen); setValue(''); setError(null); }} options={metrics.map((each) => [each.name, each.name])} error={error} params={['metric']} hint={metric.level === 'episode' ? 'It is about the whole conversation.' : 'It is about this request.'} />
      {metric.kind === 'boolean' && <Choice {...field} options={[['', 'choose …'], ['yes', 'yes'], ['no', 'no']]} />}
      {metric.kind === 'float' && <Field {...field} required />}
      {metric.kind !== 'boolean' && metric.kind !== 'float' && <Area {...field} rows={3} />}
      {error && !isOfField(error, ['metric', 'value']) && <Fault error={error} />}
      <div class="actions">
        <button class="button primary" disabled={busy || !value.trim() || (metric.kind === 'float' && !Number.isFinite(Number(value)))}>Save</button>
        <button type="button" class="button" onClick={close}>Cancel</button>
        <span class="note">It stands beside what the application sends.</span>
      </div>
    </form>
  );
}
