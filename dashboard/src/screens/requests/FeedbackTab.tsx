/** What people or programs said about the request, or its conversation. */
import { get } from '../../api';
import { moment } from '../../format';
import type { InferenceWithContent } from '../../generated/api';
import { When } from '../../parts/Head';
import { Empty, Fault, Skeleton } from '../../parts/States';
import { pretty, Text } from '../../parts/Text';
import { useResource } from '../../resource';

export function FeedbackTab({ row }: { row: InferenceWithContent }) {
  const found = useResource(`feedback|${row.id}`, async (signal) => {
    const [own, ofEpisode] = await Promise.all([get('GET /feedback', { query: { inference_id: row.id, limit: 50 }, signal }), get('GET /feedback', { query: { episode_id: row.episode_id, limit: 50 }, signal })]);
    return [...own.data, ...ofEpisode.data.filter((each) => !own.data.some((other) => other.id === each.id))];
  });
  if (found.error && !found.data) return <Fault error={found.error} retry={found.reload} />;
  if (!found.data) return <Skeleton lines={3} />;
  if (!found.data.length) return <Empty title="No feedback yet"><p class="note">Callers send it to <code>/feedback</code> with this request's id, or its conversation's.</p></Empty>;
  return (
    <ul class="talk">
      {found.data.map((each) => (
        <li class="message" key={each.id}>
          <header>{each.metric ?? each.kind} <When at={each.received_at} words={moment(each.received_at)} />{each.level === 'episode' && <span class="tag">of the conversation</span>}{!each.current && <span class="tag">replaced</span>}{each.action !== 'create' && <span class="tag">{each.action}</span>}</header>
          {typeof each.value === 'string' ? <Text text={each.value} /> : <Text text={pretty(each.value)} code={typeof each.value === 'object' && each.value !== null} />}
        </li>
      ))}
    </ul>
  );
}
