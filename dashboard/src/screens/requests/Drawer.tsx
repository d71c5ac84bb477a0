/** One request, over the list: why it went as it did, what was said, its attempts, cost and feedback, and the record itself. */
import { useEffect, useRef } from 'preact/hooks';
import { call } from '../../api';
import type { Answer } from '../../api';
import { duration, moment, dayAndClock } from '../../format';
import type { InferenceWithContent } from '../../generated/api';
import { When } from '../../parts/Head';
import { Icon } from '../../parts/Icon';
import { Fault, Skeleton } from '../../parts/States';
import { Status } from '../../parts/Status';
import { Tabs } from '../../parts/Tabs';
import { Inline, Text } from '../../parts/Text';
import { copy } from '../../parts/Toast';
import { useResource } from '../../resource';
import { go, here, place, to } from '../../router';
import { isCaller, session } from '../../session';
import { AttemptsTab } from './AttemptsTab';
import { ConversationTab } from './ConversationTab';
import { CostTab } from './CostTab';
import { FeedbackTab } from './FeedbackTab';
import { RawTab } from './RawTab';
import { attemptsOf } from './record';
import { titleOf } from './why';

type Tab = 'said' | 'attempts' | 'cost' | 'feedback' | 'raw';

export function Drawer(props: { id: string; newer: (() => void) | null; older: (() => void) | null; close: () => void }) {
  const ref = useRef<HTMLElement>(null);
  const found = useResource<Answer<InferenceWithContent>>(`inference|${session.value?.id}|${props.id}`, (signal) => call(isCaller() ? 'GET /own/inferences/{id}' : 'GET /inferences/{id}', { path: { id: props.id }, query: { content: 'messages' }, signal }));
  const row = found.data?.data.id === props.id ? found.data.data : undefined;
  const tab = (place.value.query.get('tab') as Tab | null) ?? 'said';
  useEffect(() => ref.current?.focus({ preventScroll: true }), [props.id]);
  return (
    <aside class="drawer" ref={ref} tabIndex={-1} aria-label="Request">
      <header>
        <div>
          <p class="dim mono wrap">{props.id}</p>
          {row && (
            <>
              <h2>
                <Inline text={row.model} />
                {row.variant && <span class="tag">{row.variant}</span>} <span class="dim">→</span> {row.served_provider ? <>{row.served_provider}/<Inline text={row.served_model ?? ''} /></> : 'nowhere'}
              </h2>
              <p>
                <Status status={row.status} outcome={row.outcome} /> <When at={row.received_at} words={moment(row.received_at).includes(':') && moment(row.received_at).length > 8 ? moment(row.received_at) : dayAndClock(row.received_at)} /> · {duration(row.duration_us)} · {row.team ?? 'a removed team'} · {row.streamed ? 'streamed' : 'not streamed'} · {row.route.replaceAll('_', ' ')}
              </p>
            </>
          )}
        </div>
        <div class="tools">
          <button class="icon-button" aria-label="Newer request (K)" disabled={!props.newer} onClick={() => props.newer?.()}><Icon name="up" /></button>
          <button class="icon-button" aria-label="Older request (J)" disabled={!props.older} onClick={() => props.older?.()}><Icon name="down" /></button>
          <button class="icon-button" aria-label="Close (Escape)" onClick={props.close}><Icon name="close" /></button>
        </div>
      </header>
      {!row && found.error && <Fault error={found.error} retry={found.reload} />}
      {!row && !found.error && <Skeleton lines={10} />}
      {row && <Content row={row} tab={tab} />}
    </aside>
  );
}

function Content({ row, tab }: { row: InferenceWithContent; tab: Tab }) {
  const attempts = attemptsOf(row), own = isCaller();
  return (
    <>
      <ul class="why" aria-label="Why">
        {row.why.map((each) => <li key={each.about} class={each.salient ? 'salient' : ''}><b>{titleOf(each)}</b><Text text={each.sentence} /></li>)}
      </ul>
      <Tabs
        label="Parts of the request"
        current={tab}
        choose={(name) => go(here({ tab: name === 'said' ? null : name }), { replace: true, keepScroll: true })}
        tabs={[
          { name: 'said', text: 'Conversation' },
          { name: 'attempts', text: 'Attempts', count: attempts.length > 1 ? attempts.length : null },
          { name: 'cost', text: 'Cost' },
          ...(own ? [] : [{ name: 'feedback' as const, text: 'Feedback' }]),
          { name: 'raw', text: 'Raw' },
        ]}
      />
      <section id={`panel-${tab}`} role="tabpanel" aria-labelledby={`tab-${tab}`}>
        {tab === 'said' && <ConversationTab row={row} />}
        {tab === 'attempts' && <AttemptsTab row={row} />}
        {tab === 'cost' && <CostTab row={row} />}
        {tab === 'feedback' && !own && <FeedbackTab row={row} />}
        {tab === 'raw' && <RawTab row={row} />}
      </section>
      <footer>
        {!own && <a class="button" href={to(`/conversations/${row.episode_id}`, { team_id: row.team_id })}>Whole conversation</a>}
        {!own && <a class="button" href={to('/requests', { model: row.model, range: '24h', since: null, until: null })}>Others of {row.model.length > 24 ? 'this model' : row.model}</a>}
        <button class="button" onClick={() => void copy(row.id, 'The id')}>Copy id</button>
      </footer>
    </>
  );
}
