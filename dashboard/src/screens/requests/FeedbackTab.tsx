/** What people or programs said about the request, or its conversation, and a way to say something. */
import { useEffect, useState } from 'preact/hooks';
import { get } from '../../api';
import { moment } from '../../format';
import type { InferenceWithContent } from '../../generated/api';
import { When } from '../../parts/Head';
import { Empty, Fault, Skeleton } from '../../parts/States';
import { pretty, Text } from '../../parts/Text';
import { useResource } from '../../resource';
import { may } from '../../session';
import { FeedbackForm } from './FeedbackForm';

const AGAIN_MS = 1000;

export function FeedbackTab({ row }: { row: InferenceWithContent }) {
  const [writing, setWriting] = useState(false), [awaited, setAwaited] = useState<string | null>(null);
  const found = useResource(`feedback|${row.id}`, async (signal) => {
    const [own, ofEpisode] = await Promise.all([get('GET /feedback', { query: { inference_id: row.id, limit: 50 }, signal }), get('GET /feedback', { query: { episode_id: row.episode_id, limit: 50 }, signal })]);
    return [...own.data, ...ofEpisode.data.filter((each) => !own.data.some((other) => other.id === each.id))];
  });
  // What was taken is stored a moment later.
  const isAwaited = awaited !== null && !found.error && !found.data?.some((each) => each.feedback_id === awaited);
  useEffect(() => {
    if (!isAwaited || found.loading) return;
    const timer = setTimeout(found.reload, AGAIN_MS);
    return () => clearTimeout(timer);
  }, [isAwaited, found.loading]);
  if (found.error && !found.data) return <Fault error={found.error} retry={found.reload} />;
  if (!found.data) return <Skeleton lines={3} />;
  const write = may('feedback:write', row.team) && !writing && <button class="button" onClick={() => setWriting(true)}>Write feedback</button>;
  return (
    <>
      {writing && <FeedbackForm row={row} known={found.data} close={() => setWriting(false)} written={(id) => { setWriting(false); setAwaited(id); found.reload(); }} />}
      {!found.data.length && !writing && !isAwaited && <Empty title="No feedback yet"><p class="note">Callers send it to <code>/feedback</code> with this request's id, or its conversation's.</p>{write}</Empty>}
      {isAwaited && <p class="note" role="status">Your feedback is being stored …</p>}
      {found.data.length > 0 && (
        <>
          {write && <p class="actions">{write}</p>}
          <ul class="talk" aria-label="Feedback">
            {found.data.map((each) => (
              <li class="message" key={each.id}>
                <header>{each.metric ?? each.kind} <When at={each.received_at} words={moment(each.received_at)} />{each.level === 'episode' && <span class="tag">of the conversation</span>}{each.tags?.['source'] === 'admin' && <span class="tag">written by a person with a role</span>}{!each.current && <span class="tag">replaced</span>}{each.action !== 'create' && <span class="tag">{each.action}</span>}</header>
                {typeof each.value === 'string' ? <Text text={each.value} /> : <Text text={pretty(each.value)} code={typeof each.value === 'object' && each.value !== null} />}
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
