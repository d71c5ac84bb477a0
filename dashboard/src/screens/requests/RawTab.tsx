/** Request and response as they were recorded, and every field of the record. */
import { get } from '../../api';
import { count } from '../../format';
import type { InferenceWithContent } from '../../generated/api';
import { Fault, Skeleton } from '../../parts/States';
import { pretty, Text } from '../../parts/Text';
import { copy } from '../../parts/Toast';
import { useResource } from '../../resource';
import { isCaller } from '../../session';
import { NotKept } from './ConversationTab';

export function RawTab({ row }: { row: InferenceWithContent }) {
  const found = useResource(`raw|${row.id}`, (signal) => get(isCaller() ? 'GET /own/inferences/{id}' : 'GET /inferences/{id}', { path: { id: row.id }, query: { content: 'raw' }, signal }));
  const { content: _content, messages: _messages, ...fields } = row, content = found.data?.content;
  const parts: [string, string | null | undefined][] = [['Request', content?.request], ['Response', content?.response]];
  return (
    <div class="rows-of">
      {found.error && !found.data ? <Fault error={found.error} retry={found.reload} /> : !found.data ? <Skeleton lines={6} /> : !content?.request && !content?.response && <NotKept row={row} />}
      {parts.map(([name, text]) => text && (
        <div key={name}>
          <h3>{name}, {count(text.length)} characters <button class="button small" onClick={() => void copy(text, `The ${name.toLowerCase()}`)}>Copy</button></h3>
          <Text text={pretty(text)} code />
        </div>
      ))}
      <details>
        <summary class="link">Every field of the record</summary>
        <Text text={pretty(fields)} code />
      </details>
    </div>
  );
}
