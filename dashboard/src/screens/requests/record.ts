/** What a record holds in free form, read carefully: an earlier version may have written less. */
import type { InferenceWithContent } from '../../generated/api';

export interface AttemptRecord {
  provider: string;
  model: string;
  endpoint: string;
  startedUs: number | null;
  durationUs: number | null;
  firstTokenUs: number | null;
  status: number | null;
  error: string | null;
  message: string | null;
  code: string | null;
  inputTokens: number | null;
  outputTokens: number | null;
  cost: number | null;
  requestId: string | null;
  candidates: { endpoint: string; score: number; cachedTokens: number; loadTokens: number; unavailable: string | null }[];
  resumedAt: number | null;
}

type Fields = Record<string, unknown>;

const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);
const number = (value: unknown): number | null => (typeof value === 'number' ? value : null);

/** The attempts in order, with what the host said of each, where the record has it. */
export function attemptsOf(row: InferenceWithContent): AttemptRecord[] {
  const listed = ((row.attempts ?? []) as unknown as Fields[]).map((each) => ({
    provider: text(each['provider']) ?? '?',
    model: text(each['model']) ?? text(each['served_model']) ?? '?',
    endpoint: text(each['endpoint']) ?? '',
    startedUs: number(each['started_us']),
    durationUs: number(each['duration_us']),
    firstTokenUs: number(each['first_token_us']),
    status: number(each['status']),
    error: text(each['error']),
    message: text(each['message']),
    code: text(each['code']),
    inputTokens: number(each['input_tokens']),
    outputTokens: number(each['output_tokens']),
    cost: number(each['cost_microusd']),
    requestId: text(each['request_id']),
    candidates: Array.isArray(each['candidates'])
      ? (each['candidates'] as Fields[]).map((candidate) => ({ endpoint: text(candidate['endpoint']) ?? '?', score: number(candidate['score']) ?? 0, cachedTokens: number(candidate['cached_tokens']) ?? 0, loadTokens: number(candidate['load_tokens']) ?? 0, unavailable: text(candidate['unavailable']) }))
      : [],
    resumedAt: number(each['resumed_at']),
  }));
  if (listed.length) return listed.map((each, index) => ({ ...each, startedUs: row.made_attempts[index]?.started_us ?? each.startedUs, durationUs: row.made_attempts[index]?.duration_us ?? each.durationUs, status: row.made_attempts[index]?.status ?? each.status }));
  return row.made_attempts.map((each) => ({ provider: each.provider, model: each.served_model, endpoint: each.endpoint ?? '', startedUs: each.started_us, durationUs: each.duration_us, firstTokenUs: each.first_token_us, status: each.status, error: each.error, message: null, code: each.code, inputTokens: each.input_tokens, outputTokens: each.output_tokens, cost: each.cost_microusd, requestId: null, candidates: [], resumedAt: null }));
}

export interface ChargeRecord {
  provider: string;
  model: string;
  basis: string;
  price: string | null;
  cost: number | null;
  usage: [string, number][];
}

export function chargesOf(row: InferenceWithContent): ChargeRecord[] {
  return ((row.charges ?? []) as unknown as Fields[]).map((each) => ({
    provider: text(each['provider']) ?? '?',
    model: text(each['reported_model']) ?? text(each['model']) ?? '?',
    basis: text(each['basis']) ?? 'unknown',
    price: text(each['price']),
    cost: number(each['cost_microusd']),
    usage: Object.entries((each['usage'] as Fields | undefined) ?? {}).flatMap(([name, value]): [string, number][] => (typeof value === 'number' ? [[name.replaceAll('_', ' '), value]] : [])),
  }));
}
