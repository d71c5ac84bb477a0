/** What was done with the experiment, by whom: its versions and acts, the newest first. */
import { get } from '../../api';
import { dayAndClock, percent } from '../../format';
import { Fault, Skeleton } from '../../parts/States';
import { When } from '../../parts/Head';
import { useResource } from '../../resource';

interface Entry {
  at: string;
  text: string;
}

const WORDS = { promoted: 'promoted', put_back: 'put back', stopped: 'stopped', weights: 'changed the weights of' };

export function LogPanel({ name, round }: { name: string; round: number }) {
  const found = useResource(`log|${name}|${round}`, async (signal) => {
    const [acts, versions] = await Promise.all([get('GET /experiments/{name}/log', { path: { name }, query: { limit: 50, sort: '-id' }, signal }), get('GET /experiments/{name}/versions', { path: { name }, query: { limit: 50, sort: '-number' }, signal })]);
    const entries: Entry[] = [
      ...acts.data.map((each) => ({ at: each.at, text: `${each.author} ${WORDS[each.kind]} ${each.arm ?? 'it'}: ${each.reason}` })),
      ...versions.data.map((each) => ({ at: each.created_at, text: `${each.author} set version ${each.number}: ${Object.entries(each.arms).map(([arm, weight]) => `${arm} ${weight}`).join(', ')}, ${percent(each.enrolment, 0)} enrolled` })),
    ];
    return entries.sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
  });
  return (
    <section class="panel">
      <h2>Log</h2>
      {found.error && !found.data ? <Fault error={found.error} retry={found.reload} /> : !found.data ? <Skeleton lines={3} /> : found.data.length === 0 ? <p class="note">Nothing was done with it yet.</p> : <ol class="log">{found.data.map((each) => <li key={each.at + each.text}><When at={each.at} words={dayAndClock(each.at)} /><span class="wrap">{each.text}</span></li>)}</ol>}
    </section>
  );
}
