/** What the routes of callers answer, as far as the page of a key shows it. */
import { call } from '../../api';
import type { Operations } from '../../generated/api';
import { count, dollars, span } from '../../format';

export interface Rule {
  rule: string;
  scope: Record<string, string>;
  resource: string;
  amount: number;
  per: string | null;
  remaining: number;
  reset_s: number | null;
  dry_run: boolean;
}

export interface Sums {
  hour?: string;
  day?: string;
  model?: string;
  requests: number;
  failed: number;
  input_tokens: number;
  output_tokens: number;
  cost_usd: number;
  unpriced: number;
}

export interface UsableModel {
  id: string;
  context_length?: number;
  pricing?: { input: number; output: number };
}

export async function own<T>(operation: 'GET /own/limits' | 'GET /own/usage' | 'GET /own/models', signal: AbortSignal, query: Record<string, string> = {}): Promise<T> {
  return (await call(operation, { query: query as Operations[typeof operation]['query'], signal })).data as T;
}

const RESOURCES: Record<string, string> = { requests: 'requests', input_tokens: 'input tokens', output_tokens: 'output tokens', tokens: 'tokens', cost_usd: '', concurrency: 'at once' };

/** An amount in the rule's own unit. */
export const amountOf = (rule: Rule, value: number) => (rule.resource === 'cost_usd' ? dollars(value) : `${count(Math.max(0, Math.floor(value)))} ${RESOURCES[rule.resource] ?? rule.resource}`.trim());
export const resets = (rule: Rule) => (rule.reset_s === null || rule.reset_s <= 0 ? null : `all free again in ${span(rule.reset_s)}`);
