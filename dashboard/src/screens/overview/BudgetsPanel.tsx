/** Budgets, those that end first at the top. */
import { get } from '../../api';
import { Meter } from '../../charts/Meter';
import { dollars, percent } from '../../format';
import { Empty, Fault, Skeleton } from '../../parts/States';
import { useResource } from '../../resource';
import { to } from '../../router';
import { scopeTeam } from '../../scope';
import { may } from '../../session';
import { byEnd, endWords } from '../limits/end';

export function BudgetsPanel() {
  const team = scopeTeam();
  const found = useResource(`budgets-of-overview|${team}`, (signal) => get('GET /budgets', { query: { limit: 100, team }, signal }), 60);
  if (found.error && !found.data) return <Fault error={found.error} retry={found.reload} />;
  const budgets = byEnd((found.data?.data ?? []).filter((each) => each.usage));
  return (
    <section class="panel">
      <div class="panel-head"><h2>Budgets</h2>{budgets.length > 6 && <p class="note"><a href={to('/limits')}>all {budgets.length}</a></p>}</div>
      {!found.data ? (
        <Skeleton />
      ) : budgets.length === 0 ? (
        <Empty title="No budget is set">
          <p class="note">A budget says what a team, a key or a model may cost in a day, a week or a month.</p>
          {may('config:write') && <a class="button" href={to('/limits', { new: 'budget' })}>Set a budget</a>}
        </Empty>
      ) : (
        <ul class="budget-list">
          {budgets.slice(0, 6).map((each) => (
            <li key={each.name}>
              <span><a href={to('/limits')}>{each.name}</a>{endWords(each.usage!) && <small class="bad"> {endWords(each.usage!)}</small>}</span>
              <span class="n">{dollars(each.usage!.spent_usd)} <small>of {dollars(each.usage!.amount_usd)}</small></span>
              <Meter used={each.usage!.spent_usd} held={each.usage!.reserved_usd ?? 0} forecast={each.usage!.forecast_usd} of={each.usage!.amount_usd} label={`${percent(each.usage!.percent / 100, 0)} used`} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
