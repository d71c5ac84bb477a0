/** Which budget ends first: when its money is used up, if it goes on as so far. */
import { ago } from '../../format';
import type { BudgetInUse, BudgetUsage } from '../../generated/api';

/** When a budget is used up, in milliseconds; now, if it is. Infinity: not in this period. */
export function usedUpAt(usage: BudgetUsage): number {
  if (usage.remaining_usd <= 0) return 0;
  if (usage.forecast_usd === null || usage.forecast_usd <= usage.amount_usd) return Infinity;
  const from = Date.parse(usage.period_start), rate = usage.forecast_usd / (Date.parse(usage.period_end) - from);
  return Date.now() + usage.remaining_usd / rate;
}

/** Those that end first come first; of those that last, the fullest. */
export function byEnd(budgets: BudgetInUse[]): BudgetInUse[] {
  const end = new Map(budgets.map((each) => [each.name, each.usage ? usedUpAt(each.usage) : Infinity])), percent = (each: BudgetInUse) => each.usage?.percent ?? -1;
  return [...budgets].sort((a, b) => (end.get(a.name) === end.get(b.name) ? percent(b) - percent(a) : end.get(a.name)! - end.get(b.name)!));
}

/** When a budget ends, in words; null: it lasts as long as its period. */
export function endWords(usage: BudgetUsage): string | null {
  const at = usedUpAt(usage);
  return at === 0 ? 'used up' : at === Infinity ? null : `used up ${ago(new Date(at).toISOString())} at this rate`;
}
