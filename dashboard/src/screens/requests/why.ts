/** Why a request was slow, dear, sent there, or failed: sentences made of what was recorded of it, the salient ones marked. */
import { count, duration, money, percent } from '../../format';
import type { InferenceWithContent } from '../../generated/api';
import { attemptsOf } from './record';

export interface Reason {
  title: string;
  sentence: string;
  salient: boolean;
}

const SLOW_US = 3_000_000;

export function reasons(row: InferenceWithContent): Reason[] {
  return [latency(row), price(row), route(row), ...(row.outcome === 'answered' ? [] : [ending(row)])];
}

function latency(row: InferenceWithContent): Reason {
  const attempts = attemptsOf(row), lost = attempts.filter((each) => each.error !== null && each.durationUs !== null);
  const lostUs = lost.reduce((sum, each) => sum + each.durationUs!, 0), total = row.duration_us;
  const title = total >= SLOW_US ? 'Why slow?' : 'How long?';
  if (lostUs > total * 0.25 && lostUs > 50_000) {
    const names = [...new Set(lost.map((each) => `${each.provider}/${each.model}`))].join(', ');
    return { title, sentence: `${duration(lostUs)} of ${duration(total)} were lost on ${lost.length === 1 ? 'an attempt' : `${lost.length} attempts`} that failed: ${names}.`, salient: true };
  }
  const first = row.first_token_us;
  if (first !== null && row.streamed) {
    const generating = total - first, tokens = row.output_tokens ?? 0, rate = tokens > 1 && generating > 0 ? ` at ${count(Math.round((tokens * 1e6) / generating))} tokens a second` : '';
    return first > generating
      ? { title, sentence: `${duration(first)} of ${duration(total)} passed before the first token; the rest came${rate}.`, salient: total >= SLOW_US }
      : { title, sentence: `The first token came after ${duration(first)}; ${count(tokens)} tokens took ${duration(generating)} more${rate}.`, salient: total >= SLOW_US };
  }
  const tokens = row.output_tokens ? ` with ${count(row.output_tokens)} output tokens` : '';
  return { title, sentence: `${duration(total)} for the whole response${tokens}; it was not streamed, so when it began is not known.`, salient: total >= SLOW_US };
}

const BASIS: Record<string, string> = {
  reported: 'as the host reported them',
  estimated: 'by our estimate, as the host reported none',
  reserved: 'as reserved, since the caller left before the host reported any',
};

function price(row: InferenceWithContent): Reason {
  const title = 'Why this price?';
  if (row.cost_microusd === null) return { title, sentence: `No price is known for ${row.served_provider ?? 'what'}${row.served_model ? `/${row.served_model}` : ''} served, so it counts in no cost.`, salient: true };
  if (row.cost_microusd === 0 && !row.input_tokens && !row.output_tokens) return { title, sentence: 'Nothing was charged: no host did work that it bills.', salient: false };
  const cached = row.cached_tokens ? `, of which ${count(row.cached_tokens)} were cached` : '', reasoning = row.reasoning_tokens ? `, of which ${count(row.reasoning_tokens)} are reasoning` : '';
  const failed = attemptsOf(row).filter((each) => each.error !== null && each.cost).reduce((sum, each) => sum + each.cost!, 0);
  const extra = failed > 0 ? ` ${money(failed)} of it are for attempts that failed.` : '';
  return { title, sentence: `${money(row.cost_microusd)}: ${count(row.input_tokens)} input tokens${cached}, and ${count(row.output_tokens)} output tokens${reasoning}, ${BASIS[row.charge_basis ?? ''] ?? `by basis "${row.charge_basis ?? 'unknown'}"`}.${extra}`, salient: failed > 0 };
}

const NOT_ENROLLED: Record<string, string> = {
  pinned: 'its caller chose the variant',
  ineligible: 'the experiment is not for such requests',
  no_unit: 'it names no unit to assign',
  holdout: 'its unit is held out',
  layer: 'its unit is in another experiment of the layer',
  share: 'its unit does not take part',
  before: 'its conversation began before the experiment',
  late: 'the process did not know the newest weights yet',
  future: 'its conversation claims to begin later',
};

function route(row: InferenceWithContent): Reason {
  const title = 'Why there?', attempts = attemptsOf(row), parts: string[] = [];
  if (row.variant) {
    const outside = row.not_enrolled !== null, share = row.arm_probability ? ` with a share of ${percent(row.arm_probability, 0)}` : '';
    if (!row.experiment) parts.push(`The variant is ${row.variant}.`);
    else if (outside) parts.push(`It got ${row.variant} outside of the experiment ${row.experiment}: ${NOT_ENROLLED[row.not_enrolled!] ?? row.not_enrolled}.`);
    else parts.push(`The experiment ${row.experiment} gave it ${row.variant}${share}.`);
    if (row.served_variant && row.served_variant !== row.variant) parts.push(`${row.served_variant} served it instead.`);
  }
  const failed = attempts.filter((each) => each.error !== null);
  const served = row.served_provider ? `${row.served_provider}/${row.served_model}` : null;
  if (!served) parts.push(attempts.length ? `None of ${count(attempts.length)} attempts served it.` : 'It went to no host.');
  else if (failed.length) parts.push(`${served} served it after ${failed.map((each) => `${each.provider}/${each.model} failed (${each.error})`).slice(0, 3).join(', ')}.`);
  else parts.push(`${served} is the target of ${row.model} that came first, and it served at once.`);
  const candidates = attempts.at(-1)?.candidates ?? [];
  if (candidates.length > 1) parts.push(`Of ${count(candidates.length)} endpoints ${candidates[0]!.endpoint} had the least load, ${count(candidates[0]!.cachedTokens)} tokens of the prompt being in its cache.`);
  return { title, sentence: parts.join(' '), salient: failed.length > 0 && served !== null };
}

function ending(row: InferenceWithContent): Reason {
  if (row.outcome === 'disconnected') return { title: 'How did it end?', sentence: `The caller closed the connection after ${duration(row.duration_us)}.`, salient: true };
  const said = row.message ? ` "${row.message.slice(0, 300)}"` : '';
  return { title: 'Why did it fail?', sentence: `${row.error ?? 'It was not answered'} (status ${row.status}).${said}`, salient: true };
}
