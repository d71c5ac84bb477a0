/** Values within a draft by path, as the API names fields in what it refuses: targets[0].provider. */
export type Draft = Record<string, unknown>;

/** A copy with another value of one field; undefined takes it out. */
export function withField(draft: Draft, name: string, value: unknown): Draft {
  const { [name]: _, ...others } = draft;
  return value === undefined ? others : { ...draft, [name]: value };
}

/** Whether a refusal is about a field, or about something within it. */
export const isAt = (param: string | null | undefined, path: string) => param != null && (param === path || param.startsWith(`${path}.`) || param.startsWith(`${path}[`));

export const same = (a: unknown, b: unknown) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

export interface Merged {
  draft: Draft;
  /** What both changed, and to different values. */
  clashes: string[];
  theirs: string[];
}

/** My changes, field by field, made to what somebody else has stored meanwhile. Where both changed a field, mine is kept. */
export function merge(base: Draft, mine: Draft, theirs: Draft): Merged {
  const names = [...new Set([...Object.keys(base), ...Object.keys(mine), ...Object.keys(theirs)])];
  const draft: Draft = {}, clashes: string[] = [], changed: string[] = [];
  for (const name of names) {
    const isMine = !same(mine[name], base[name]), isTheirs = !same(theirs[name], base[name]);
    if (isTheirs) changed.push(name);
    if (isMine && isTheirs && !same(mine[name], theirs[name])) clashes.push(name);
    const value = isMine ? mine[name] : theirs[name];
    if (value !== undefined) draft[name] = value;
  }
  return { draft, clashes, theirs: changed };
}
