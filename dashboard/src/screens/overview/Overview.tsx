/** What is wrong now and what to do about it; then traffic, failures, cost and latency against the time before. */
import { askAll } from '../../analytics';
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
      const earlier = { ...before(range), team };
      const answers = await askAll(
        {
          all: { ...now, quantiles: true },
          earlier: { ...earlier, quantiles: true },
          overTime: { ...now, interval: range.interval, quantiles: true },
          outcomes: { ...now, interval: range.interval, group_by: 'outcome', limit: 8 },
          models: { ...now, group_by: 'model', limit: 8, quantiles: true },
          failing: { ...now, group_by: 'model', order_by: 'failed', limit: 5 },
          failedBefore: { ...earlier, group_by: 'model', order_by: 'failed', limit: 20 },
        },
        signal,
      );
      return { range, ...answers };
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
                <ModelsPanel found={data.models} />
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
