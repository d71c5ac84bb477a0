/** What needs somebody: endpoints that are away, budgets near their end, models that fail more than before, results that decide. */
import { get } from '../../api';
import { count, dollars, percent, plural, share, span } from '../../format';
import type { EndpointState } from '../../generated/api';
import { useResource } from '../../resource';
import { to } from '../../router';
import { scopeTeam } from '../../scope';
import { may } from '../../session';
import type { Sums } from './sums';

interface Need {
  kind: string;
  tone: 'bad' | 'warn' | 'info';
  title: string;
  detail: string;
  address: string;
  act: string;
}

const MOST = 6, RANK = { bad: 0, warn: 1, info: 2 };

export function Needs({ sums }: { sums: Sums }) {
  const team = scopeTeam();
  const found = useResource(
    `needs|${team}`,
    async (signal) => {
      const parts = await Promise.allSettled([endpointNeeds(signal), budgetNeeds(team, signal), decisionNeeds(signal)]);
      const needs = parts.flatMap((part) => (part.status === 'fulfilled' ? part.value : []));
      return { needs, missing: parts.filter((part) => part.status === 'rejected').length };
    },
    60,
  );
  if (!found.data) return null;
  const { missing } = found.data, needs = [...failureNeeds(sums), ...found.data.needs].sort((a, b) => RANK[a.tone] - RANK[b.tone]);
  const note = missing > 0 && <p class="note">{plural(missing, 'check')} could not be made now.</p>;
  if (!needs.length)
    return (
      <section class="panel" aria-label="What needs you">
        <p class="all-well"><i />Nothing needs you: every endpoint that requests go to answers, no budget is near its end, and nothing fails more than before.</p>
        {note}
      </section>
    );
  return (
    <section class="panel needs" aria-label="What needs you">
      <h2>{needs.length === 1 ? 'One thing needs you' : `${count(needs.length)} things need you`}</h2>
      <ul>
        {needs.slice(0, MOST).map((need) => (
          <li key={need.title}>
            <b class={`severity ${need.tone}`}>{need.kind}</b>
            <span><a href={need.address}>{need.title}</a><small>{need.detail}</small></span>
            <a class="button" href={need.address}>{need.act}</a>
          </li>
        ))}
      </ul>
      {needs.length > MOST && <p class="note">and {count(needs.length - MOST)} more</p>}
      {note}
    </section>
  );
}

async function endpointNeeds(signal: AbortSignal): Promise<Need[]> {
  const fleet = await get('GET /fleet', { query: { limit: 200 }, signal });
  return fleet.data.flatMap((each) => {
    const problem = endpointProblem(each);
    return problem ? [{ kind: problem.kind, tone: problem.tone, title: `${each.provider}: ${each.endpoint} ${problem.title}`, detail: problem.detail, address: to('/fleet'), act: 'Open fleet' }] : [];
  });
}

/** What is wrong with an endpoint, in words; null: nothing. */
export function endpointProblem(each: EndpointState): { kind: string; tone: 'bad' | 'warn' | 'info'; title: string; detail: string } | null {
  const serves = each.serves.length ? `It serves ${each.serves.slice(0, 4).join(', ')}.` : 'No model leads to it.';
  if (each.breaker === 'open') return { kind: 'Away', tone: 'bad', title: 'gets no requests', detail: `${each.failures > 0 ? `${plural(each.failures, 'failure')} in a row: its` : 'Its'} breaker is open. ${serves}` };
  if (each.health === 'unreachable') return { kind: 'Away', tone: 'bad', title: 'does not answer', detail: serves };
  if (each.health === 'refused') return { kind: 'Credential', tone: 'bad', title: 'refuses us', detail: `Its credential may be wrong. ${serves}` };
  if (each.health === 'not_ready') return { kind: 'Not ready', tone: 'warn', title: 'is not ready', detail: serves };
  const refused = each.credentials.filter((credential) => credential.refused);
  if (refused.length) return { kind: 'Credential', tone: 'bad', title: 'refuses its credential', detail: `${refused.map((credential) => credential.reference ?? 'the credential').join(', ')} was refused. ${serves}` };
  const cooling = each.credentials.filter((credential) => credential.cooldown_s > 0);
  if (cooling.length && cooling.length === each.credentials.length) return { kind: 'Limited', tone: 'warn', title: 'has asked us to wait', detail: `Every credential waits, the first for ${span(Math.min(...cooling.map((credential) => credential.cooldown_s)))} more. ${serves}` };
  if (each.warning) return { kind: 'Warning', tone: 'warn', title: 'has a warning', detail: each.warning };
  return null;
}

async function budgetNeeds(team: string | null, signal: AbortSignal): Promise<Need[]> {
  const budgets = await get('GET /budgets', { query: { limit: 200, team }, signal });
  return budgets.data.flatMap((each): Need[] => {
    const usage = each.usage;
    if (!usage) return [];
    const act = may('config:write') ? 'Raise it' : 'See it', address = to('/limits');
    const used = `${each.name} has used ${dollars(usage.spent_usd)} of ${dollars(usage.amount_usd)} of its ${each.per ?? 'month'}`;
    if (usage.percent >= 100) return [{ kind: 'Budget', tone: 'bad', title: used, detail: each.dry_run ? 'It only counts: nothing is refused.' : 'Requests that it covers get a 429 until the period ends.', address, act }];
    if (usage.percent >= 90) return [{ kind: 'Budget', tone: 'warn', title: used, detail: `${percent(usage.percent / 100, 0)} are used.`, address, act }];
    if (usage.forecast_usd != null && usage.forecast_usd > usage.amount_usd && usage.percent >= 50) return [{ kind: 'Budget', tone: 'warn', title: used, detail: `At this rate it will be ${dollars(usage.forecast_usd)} by the end.`, address, act }];
    return [];
  });
}

function failureNeeds(sums: Sums): Need[] {
  return sums.failing.data.flatMap((row): Need[] => {
    const model = row.group['model'] ?? '', earlier = sums.failedBefore.data.find((each) => each.group['model'] === model);
    const rate = row.requests ? row.failed / row.requests : 0, before = earlier?.requests ? earlier.failed / earlier.requests : 0;
    if (row.failed < 5 || rate < 0.05 || rate < before * 1.5) return [];
    const detail = earlier ? `That is ${share(row.failed, row.requests, 1)} of its requests, against ${percent(before)} in the time before.` : `That is ${share(row.failed, row.requests, 1)} of its requests.`;
    return [{ kind: 'Failing', tone: 'bad', title: `${model}: ${plural(row.failed, 'request')} failed`, detail, address: to('/requests', { model, outcome: 'failed' }), act: 'See them' }];
  });
}

async function decisionNeeds(signal: AbortSignal): Promise<Need[]> {
  const page = await get('GET /experiments', { query: { status: 'running', verdicts: true, limit: 50 }, signal });
  return page.data.flatMap((each): Need[] => {
    const result = each.result, address = to(`/experiments/${encodeURIComponent(each.name)}`);
    if (!result || !DECIDES[result.verdict]) return [];
    const [kind, tone, title] = DECIDES[result.verdict]!;
    return [{ kind, tone, title: `${each.name}: ${title(result.arm ?? 'an arm', result.metric ?? 'its metric')}`, detail: result.conclusion, address, act: 'See result' }];
  });
}

const DECIDES: Record<string, [string, 'bad' | 'info', (arm: string, metric: string) => string]> = {
  winning: ['Decide', 'info', (arm, metric) => `${arm} is better on ${metric}`],
  harmful: ['Harm', 'bad', (arm, metric) => `${arm} is worse on ${metric}`],
  broken: ['Broken', 'bad', () => 'its units are not split as they should be'],
  equivalent: ['Decide', 'info', () => 'its arms are equal'],
};
