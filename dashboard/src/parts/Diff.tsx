/** Two states of a thing as lines that are gone, new, or the same. */
const CONTEXT = 2;

export function Diff({ before, after }: { before: unknown; after: unknown }) {
  const lines = shortened(compare(written(before), written(after)));
  if (!lines.some((line) => line.kind !== 'same')) return <p class="note">Nothing differs.</p>;
  return (
    <div class="diff">
      {lines.map((line, index) => <div key={index} class={line.kind}>{line.kind === 'gone' ? '− ' : line.kind === 'new' ? '+ ' : '  '}{line.text}</div>)}
    </div>
  );
}

interface DiffLine {
  kind: 'gone' | 'new' | 'same';
  text: string;
}

const written = (value: unknown): string[] => (value == null ? [] : JSON.stringify(value, null, 2).split('\n').slice(0, 600));

/** The longest common subsequence of lines; what is compared here has at most some hundred. */
export function compare(before: string[], after: string[]): DiffLine[] {
  const lengths: number[][] = Array.from({ length: before.length + 1 }, () => new Array<number>(after.length + 1).fill(0));
  for (let i = before.length - 1; i >= 0; i--)
    for (let j = after.length - 1; j >= 0; j--) lengths[i]![j] = before[i] === after[j] ? lengths[i + 1]![j + 1]! + 1 : Math.max(lengths[i + 1]![j]!, lengths[i]![j + 1]!);
  const found: DiffLine[] = [];
  let i = 0, j = 0;
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      found.push({ kind: 'same', text: before[i]! });
      i++;
      j++;
    } else if (i < before.length && (j >= after.length || lengths[i + 1]![j]! >= lengths[i]![j + 1]!)) found.push({ kind: 'gone', text: before[i++]! });
    else found.push({ kind: 'new', text: after[j++]! });
  }
  return found;
}

function shortened(lines: DiffLine[]): DiffLine[] {
  const near = lines.map((_, index) => lines.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some((line) => line.kind !== 'same'));
  const found: DiffLine[] = [];
  lines.forEach((line, index) => {
    if (near[index]) found.push(line);
    else if (near[index - 1] || index === 0) found.push({ kind: 'same', text: '…' });
  });
  return found;
}
