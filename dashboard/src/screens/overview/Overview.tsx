/** What is wrong now and what to do about it; then traffic, failures, cost and latency against the time before. */
import { ask } from '../../analytics';
import { clock, zone } from '../../format';
import { Head } from '../../parts/Head';
import { Fault, Skeleton, Stale } from '../../parts/States';
import { useResource } from '../../resource';
import { before, describe, scopeTeam, timeRange } from '../../scope';
import { may, session } from '../../session';
import { BudgetsPanel } from './BudgetsPanel';
import { FirstSteps } from './FirstSteps';
import { LatencyChart, OutcomeChart } from './charts';
import { ModelsPanel } from './ModelsPanel';
import { Needs } from './Needs';
import { Tiles } from './Tiles';

export function Overview() {
  const range = timeRange(), team = scopeTeam();
  const key = `overview|${session.value?.id}|${team}|${range.name ?? range.since + range.until}|${zone()}`;
  const sums = useResource(
    key,
    async (signal) => {
      const now = { since: range.since, until: range.until, team };
      const [all, earlier, overTime, outcomes] = await Promise.all([
        ask({ ...now, quantiles: true }, signal),
        ask({ ...before(range), team, quantiles: true }, signal),
        ask({ ...now, interval: range.interval, quantiles: true }, signal),
        ask({ ...now, interval: range.interval, group_by: 'outcome', limit: 8 }, signal),
      ]);
      return { range, all, earlier, overTime, outcomes };
    },
    60,
  );
  const data = sums.data, until = data?.all.complete_until;
  return (
    <>
      <Head title="Overview" about={<>{describe(range)}{until && `, complete until ${clock(until)}`} · compared with the time before</>} />
      {sums.error && !data && <Fault error={sums.error} retry={sums.reload} />}
      {sums.error && data && <Stale error={sums.error} retry={sums.reload} />}
      {!data && !sums.error && <section class="panel"><Skeleton lines={10} /></section>}
      {data && isEmpty(data.all) && isEmpty(data.earlier) && !team && range.seconds >= 86_400 ? (
        <FirstSteps />
      ) : (
        data && (
          <>
            {may('config:read') && <Needs sums={data} />}
            <div class={sums.loading ? 'rows-of dimmed' : 'rows-of'} aria-busy={sums.loading}>
              <Tiles sums={data} />
              <OutcomeChart sums={data} />
              <div class="columns even">
                <ModelsPanel />
                {may('config:read') ? <BudgetsPanel /> : <LatencyChart sums={data} />}
              </div>
              {may('config:read') && <LatencyChart sums={data} />}
            </div>
          </>
        )
      )}
    </>
  );
}

const isEmpty = (answer: { data: { requests: number; refused: number }[] }) => answer.data.every((row) => row.requests + row.refused === 0);
