/** The API reference: the OpenAPI document as a page that one can search and try. */
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useKeys } from '../keys';
import { Icon } from '../parts/Icon';
import { Empty, Skeleton } from '../parts/States';
import { Toasts } from '../parts/Toast';
import { startTheme, switchTheme } from '../theme';
import { Contents, menuOpen } from './Contents';
import { load } from './document';
import type { Reference } from './document';
import { Guide, isOfGuide } from './Guide';
import { anchor, searched, startFollowing } from './location';
import { Found, Schemas, SchemaView, Start, Subject, Unknown } from './Views';

const root = document.getElementById('reference')!;
const dashboard = root.dataset['dashboard'] ?? null;

function App() {
  const [reference, setReference] = useState<Reference | null>(null), [fault, setFault] = useState('');
  const ask = () => {
    setFault('');
    load().then(setReference, (error: unknown) => setFault(error instanceof Error ? error.message : String(error)));
  };
  useEffect(ask, []);
  useKeys((key) => {
    if (key !== '/') return false;
    document.getElementById('search')?.focus();
    return true;
  });
  if (fault) return <main id="main"><section class="panel"><Empty title="The reference could not be loaded"><p>{fault}</p><button class="button" onClick={ask}>Try again</button></Empty></section></main>;
  if (!reference) return <main id="main"><section class="panel"><Skeleton lines={12} /></section></main>;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById('main')?.focus(); }}>Skip to content</a>
      <div class="shell">
        <Contents reference={reference} dashboard={dashboard} />
        <div>
          <header class="top">
            <button class="only-narrow icon-button" aria-label="Contents" aria-expanded={menuOpen.value} aria-controls="menu" onClick={() => (menuOpen.value = !menuOpen.value)}><Icon name="menu" /></button>
            <label class="search-field">
              <Icon name="search" />
              <span class="sr">Search the reference</span>
              <input id="search" type="search" placeholder="Search operations, parameters, schemas" value={searched.value} autocomplete="off" spellcheck={false} onInput={(event) => (searched.value = event.currentTarget.value)} />
              <kbd>/</kbd>
            </label>
            <span class="grow" />
            {dashboard && <a class="button" href={dashboard}>Dashboard</a>}
            <button class="icon-button" aria-label="Switch between light and dark" onClick={switchTheme}><Icon name="theme" /></button>
          </header>
          <main id="main" tabIndex={-1}><View reference={reference} /></main>
        </div>
      </div>
      <Toasts />
    </>
  );
}

function View({ reference }: { reference: Reference }) {
  const at = anchor.value, isWithin = at.startsWith('op-') || isOfGuide(at);
  // What is within a view is scrolled to by itself, once it is there.
  useEffect(() => {
    if (isWithin) return;
    scrollTo(0, 0);
    if (at) document.getElementById('main')?.focus({ preventScroll: true });
  }, [at]);
  if (searched.value.trim()) return <Found reference={reference} />;
  if (at === '' || at === 'main') return <Start reference={reference} />;
  if (at === 'schemas') return <Schemas reference={reference} />;
  if (at.startsWith('schema-')) return <SchemaView reference={reference} name={at.slice('schema-'.length)} />;
  const tag = reference.operations.find((each) => `op-${each.id}` === at || each.tag.id === at)?.tag;
  if (tag) return <Subject key={tag.id} reference={reference} id={tag.id} />;
  return isOfGuide(at) ? <Guide /> : <Unknown />;
}

startTheme();
startFollowing();
root.replaceChildren();
render(<App />, root);
