/** The menu of the reference: the guide's parts, and the operations by subject. */
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Mark } from '../parts/Icon';
import type { Reference } from './document';
import { headings, isOfGuide } from './Guide';
import { anchor } from './location';

export const menuOpen = signal(false);

export function Contents({ reference, dashboard }: { reference: Reference; dashboard: string | null }) {
  const at = anchor.value, tag = reference.operations.find((each) => `op-${each.id}` === at)?.tag.id ?? at;
  useEffect(() => { menuOpen.value = false; }, [at]);
  const current = (is: boolean) => (is ? ('page' as const) : undefined);
  return (
    <nav id="menu" class={`menu${menuOpen.value ? ' open' : ''}`} aria-label="Contents">
      <a class="brand" href="#"><Mark />API reference</a>
      {reference.groups.map((group) => (
        <section key={group.name}>
          <h2>{group.name}</h2>
          <ul>{group.tags.map((each) => <li key={each.id}><a href={`#${each.id}`} aria-current={current(each.id === tag)}>{each.name}<span class="badge">{each.operations.length}</span></a></li>)}</ul>
        </section>
      ))}
      <section>
        <h2>More</h2>
        <ul>
          <li><a href="#schemas" aria-current={current(at.startsWith('schema'))}>Schemas<span class="badge">{Object.keys(reference.schemas).length}</span></a></li>
          <li><a href="/openapi.json">OpenAPI document</a></li>
        </ul>
      </section>
      <section>
        <h2>Guide</h2>
        <ul>{headings.map((each) => <li key={each.id}><a href={`#${each.id}`} aria-current={current(each.id === at)}>{each.text}</a></li>)}</ul>
      </section>
      <div class="who">
        <span class="dim">Narthex {reference.version}{isOfGuide(at) ? '' : ` · ${reference.operations.length} operations`}</span>
        {dashboard && <a class="link" href={dashboard}>Dashboard</a>}
      </div>
    </nav>
  );
}
