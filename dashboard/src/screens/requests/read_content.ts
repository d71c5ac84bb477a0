/** The messages of a record, as the API reads them of whichever format was recorded. */
import type { InferenceWithContent } from '../../generated/api';
import type { ShownMessage } from '../../parts/Messages';

export interface Said {
  input: ShownMessage[] | null;
  output: ShownMessage[] | null;
  newFrom: number;
  tools: number;
  problem: string | null;
}

interface ApiMessages {
  input?: ShownMessage[];
  output?: ShownMessage[];
  tools?: unknown[];
  new_from?: number | null;
  problems?: string[];
}

export function readContent(row: InferenceWithContent): Said {
  const messages = (row as { messages?: ApiMessages | null }).messages;
  if (!messages) return { input: null, output: null, newFrom: 0, tools: 0, problem: null };
  return {
    input: messages.input ?? null,
    output: messages.output ?? null,
    newFrom: messages.new_from ?? 0,
    tools: messages.tools?.length ?? 0,
    problem: messages.problems?.length ? messages.problems.join(' ') : null,
  };
}
