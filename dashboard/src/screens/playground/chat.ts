/** A chat as OpenAI's API has it: what a request is made of, and what of an answer's stream is known so far. */
import { ApiError, send } from '../../api';

export type Content = string | ({ type: 'text'; text: string } | { type: 'image_url'; image_url: { url: string } })[];

export interface Message {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: Content | null;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
}

export interface ToolCall {
  id: string;
  name: string;
  text: string;
}

export interface Answer {
  state: 'waiting' | 'writing' | 'done' | 'stopped' | 'failed';
  text: string;
  reasoning: string;
  refusal: string;
  calls: ToolCall[];
  finish: string | null;
  error: ApiError | null;
  id: string | null;
  served: string | null;
  variant: string | null;
  dropped: string | null;
  input: number | null;
  output: number | null;
  reasoned: number | null;
  costUsd: number | null;
  firstUs: number | null;
  us: number | null;
}

export const begun = (): Answer => ({
  state: 'waiting', text: '', reasoning: '', refusal: '', calls: [], finish: null, error: null, id: null, served: null, variant: null, dropped: null,
  input: null, output: null, reasoned: null, costUsd: null, firstUs: null, us: null,
});

export interface Chunk {
  choices?: { delta?: { content?: string | null; reasoning_content?: string | null; reasoning?: string | null; refusal?: string | null; tool_calls?: { index?: number; id?: string; function?: { name?: string; arguments?: string } }[] }; finish_reason?: string | null }[];
  usage?: { prompt_tokens?: number; completion_tokens?: number; completion_tokens_details?: { reasoning_tokens?: number } | null; narthex_cost_usd?: number | string | null } | null;
  error?: { message?: string; code?: string | null; param?: string | null };
}

/** Puts a chunk of the stream into the answer. */
export function take(answer: Answer, chunk: Chunk) {
  const choice = chunk.choices?.[0], delta = choice?.delta;
  if (delta) {
    answer.text += delta.content ?? '';
    answer.reasoning += delta.reasoning_content ?? delta.reasoning ?? '';
    answer.refusal += delta.refusal ?? '';
    for (const part of delta.tool_calls ?? []) {
      const call = (answer.calls[part.index ?? 0] ??= { id: '', name: '', text: '' });
      call.id ||= part.id ?? '';
      call.name ||= part.function?.name ?? '';
      call.text += part.function?.arguments ?? '';
    }
  }
  answer.finish = choice?.finish_reason ?? answer.finish;
  const usage = chunk.usage;
  if (usage) {
    answer.input = usage.prompt_tokens ?? null;
    answer.output = usage.completion_tokens ?? null;
    answer.reasoned = usage.completion_tokens_details?.reasoning_tokens ?? null;
    answer.costUsd = usage.narthex_cost_usd == null ? null : Number(usage.narthex_cost_usd);
  }
}

/** The whole of a request, as any caller sends it. Its stream ends with its usage, and what it cost. */
export async function stream(body: object, key: string | null, answer: Answer, signal: AbortSignal, changed: () => void): Promise<void> {
  const headers: Record<string, string> = { 'content-type': 'application/json', accept: 'text/event-stream', 'x-narthex-cost': 'true', ...(key ? { 'x-narthex-key': key } : {}) };
  const start = performance.now(), since = () => Math.round((performance.now() - start) * 1000);
  try {
    const response = await send('/admin/v1/playground/chat/completions', { method: 'POST', headers, body: JSON.stringify(body), signal, credentials: 'same-origin' });
    const header = (name: string) => response.headers.get(`x-narthex-${name}`);
    answer.id = header('inference-id');
    answer.served = header('served');
    answer.variant = header('served-variant');
    answer.dropped = header('dropped');
    answer.state = 'writing';
    const isComplete = await read(response, (chunk) => {
      const before = answer.text.length + answer.reasoning.length + answer.calls.length;
      if (chunk.error) throw new ApiError(response.status, chunk.error.message ?? 'The stream failed.', chunk.error.code ?? null, chunk.error.param ?? null, answer.id, null);
      take(answer, chunk);
      if (!before && answer.text.length + answer.reasoning.length + answer.calls.length) answer.firstUs = since();
      changed();
    });
    if (!isComplete) throw new ApiError(0, 'The stream broke off before its end: the connection or the gateway is gone. What came until then is below.', null, null, answer.id, null);
    answer.state = 'done';
  } catch (fault) {
    if (signal.aborted) answer.state = 'stopped';
    else {
      answer.state = 'failed';
      answer.error = fault instanceof ApiError ? fault : new ApiError(0, 'The stream broke off: the connection is gone. What came until then is below.', null, null, answer.id, null);
    }
  } finally {
    answer.us = since();
    changed();
  }
}

/** Whether the stream came to its own end. */
async function read(response: Response, act: (chunk: Chunk) => void): Promise<boolean> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '', isComplete = false;
  for (;;) {
    const { done, value } = await reader.read();
    rest += value ?? '';
    const lines = rest.split('\n');
    rest = done ? '' : lines.pop()!;
    for (const line of lines) {
      if (!line.startsWith('data:')) continue;
      const data = line.slice(5).trim();
      if (data === '[DONE]') isComplete = true;
      else if (data) act(JSON.parse(data) as Chunk);
    }
    if (done) return isComplete;
  }
}
