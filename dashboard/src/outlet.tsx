/** Loads and shows the view that the address names. */
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Overview } from './screens/overview/Overview';
import { Head } from './parts/Head';
import { Empty, Skeleton } from './parts/States';
import { place, to } from './router';
import { session } from './session';

const SCREENS = [
  [/^\/me$/, 'Me'],
  [/^\/playground$/, 'Playground'],
  [/^\/requests$/, 'Requests'],
  [/^\/conversations(\/[^/]+)?$/, 'Conversations'],
  [/^\/experiments(\/[^/]+)?$/, 'Experiments'],
  [/^\/functions(\/[^/]+)?$/, 'Functions'],
  [/^\/(teams|keys)(\/[^/]+)?$/, 'Teams'],
  [/^\/limits$/, 'Limits'],
  [/^\/cost$/, 'Cost'],
  [/^\/datasets(\/[^/]+)?$/, 'Datasets'],
  [/^\/replays(\/[^/]+)?$/, 'Replays'],
  [/^\/feedback$/, 'Feedback'],
  [/^\/settings$/, 'Settings'],
  [/^\/fleet$/, 'Fleet'],
  [/^\/models(\/[^/]+)?$/, 'Models'],
  [/^\/audit$/, 'Audit'],
] as const;

export function Outlet() {
  const path = place.value.path;
  if (path === '/' || path === '/sign-in') return session.value?.kind === 'caller' ? <Lazy key="Me" name="Me" /> : <Overview />;
  const found = SCREENS.find(([pattern]) => pattern.test(path));
  return found ? <Lazy key={found[1]} name={found[1]} /> : <Unknown />;
}

type All = typeof import('./screens/all');

let loaded: All | null = null;

function Lazy({ name }: { name: keyof All }) {
  const [all, setAll] = useState(loaded), [failed, setFailed] = useState(false);
  useEffect(() => {
    if (all) return;
    import('./screens/all').then(
      (found) => {
        loaded = found;
        setAll(found);
      },
      () => setFailed(true),
    );
  }, []);
  if (failed)
    return (
      <Empty title="This part of the dashboard could not be loaded">
        <p>The gateway may have been upgraded since this page was opened.</p>
        <button class="button" onClick={() => location.reload()}>Load the page again</button>
      </Empty>
    );
  if (!all) return <section class="panel"><Skeleton lines={8} /></section>;
  const Screen: ComponentType = all[name];
  return <Screen />;
}

function Unknown() {
  return (
    <>
      <Head title="There is no such page" />
      <section class="panel">
        <div class="state">
          <p>The address <code>{place.value.path}</code> leads nowhere here. Ctrl K finds views, ids and names.</p>
          <a class="button" href={to('/')}>Overview</a>
        </div>
      </section>
    </>
  );
}
