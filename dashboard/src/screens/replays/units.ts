/** Values of a replay's metrics in their own unit. */
import { count, dollars, duration, money, percent } from '../../format';

/** As results have them: in seconds, US dollars, tokens, or as a share. */
export function inUnitOf(metric: string, value: number | null | undefined, withSign = false): string {
  if (value == null) return '–';
  const sign = withSign && value > 0 ? '+' : withSign && value < 0 ? '−' : '', amount = withSign ? Math.abs(value) : value;
  if (metric === 'cost') return sign + dollars(amount);
  if (metric.endsWith('tokens')) return sign + (Number.isInteger(amount) ? count(amount) : amount.toFixed(1));
  if (metric === 'latency' || metric === 'first_token') return sign + duration(amount * 1e6);
  return sign + percent(amount, 1);
}

/** As a pair has them, with their unit in the name. */
export function ofPair(name: string, value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value !== 'number') return '–';
  return name.endsWith('_us') ? duration(value) : name.endsWith('_microusd') ? money(value) : count(value);
}

export const nameOf = (name: string) => name.replace(/_(us|microusd)$/, '').replaceAll('_', ' ');
