/** Signing in: by the company's issuer, with a key, or by the one-time link that `narthex up` prints. */
import { useEffect, useState } from 'preact/hooks';
import { ApiError } from './api';
import { Dialog, useSubmit } from './parts/Dialog';
import { Field } from './parts/Field';
import { Mark } from './parts/Icon';
import { go, place, to } from './router';
import { loadSession, sessionError, signIn, signInWays } from './session';
import type { Ways } from './session';

export function SignIn() {
  useEffect(() => { document.title = 'Sign in · Narthex'; }, []);
  return (
    <main class="sign-in" id="main">
      <section class="panel">
        <p class="brand"><Mark />Narthex</p>
        {sessionError.value ? <Unreachable error={sessionError.value} /> : <><h1>Sign in</h1><SignInForm /></>}
      </section>
    </main>
  );
}

/** On top of what is shown, so that nothing is lost: signing in goes on where it was. */
export function SignInDialog() {
  return <Dialog title="Your session has ended" close={() => undefined} kept><SignInForm /></Dialog>;
}

function Unreachable({ error }: { error: ApiError }) {
  return (
    <>
      <h1>The gateway does not answer</h1>
      <p class="wrap">{error.message}</p>
      <button class="button primary" onClick={() => void loadSession()}>Try again</button>
    </>
  );
}

function SignInForm() {
  const [ways, setWays] = useState<Ways | null>(null), [key, setKey] = useState('');
  const byKey = useSubmit(async () => { await signIn('key', { key: key.trim() }); arrive(); });
  const byLink = useSubmit(async () => {
    const code = new URLSearchParams(location.hash.slice(1)).get('once');
    // Used or not, it is good for nothing in the history of this browser.
    history.replaceState(null, '', location.pathname + location.search);
    if (code) {
      await signIn('once', { code });
      arrive();
    }
  });
  useEffect(() => {
    if (location.hash.includes('once=')) void byLink.submit();
    signInWays().then(setWays, () => setWays({ issuer: false, key: null }));
  }, []);
  if (byLink.busy) return <p role="status">Signing in …</p>;
  const back = encodeURIComponent(location.pathname.endsWith('/sign-in') ? '/dashboard' : location.pathname + location.search);
  return (
    <div class="form">
      {byLink.error && <p class="bad" role="alert">{byLink.error.message}</p>}
      {ways?.issuer && <a class="button primary" href={`/admin/v1/sign-in?return_to=${back}`}>Sign in with your company account</a>}
      {ways?.issuer && <p class="note">or with a key</p>}
      {ways?.key ? (
        <p class="note">{ways.key}</p>
      ) : (
        <form class="form" onSubmit={(event) => { event.preventDefault(); void byKey.submit(); }}>
          <Field name="key" label="Key" type="password" value={key} set={setKey} required placeholder="nx-…" hint={<>An admin key, or the key of a program, which sees what is its own. It is exchanged for a session, and not kept in this browser. <code>make up</code> keeps an admin key in <code>admin-key</code> of its folder.</>} />
          {byKey.error && <p class="bad" role="alert">{byKey.error.message}</p>}
          <button class={`button${ways?.issuer ? '' : ' primary'}`} disabled={byKey.busy || !key.trim()}>{byKey.busy ? 'Signing in …' : 'Sign in'}</button>
        </form>
      )}
    </div>
  );
}

function arrive() {
  if (place.value.path === '/sign-in') go(to('/'), { replace: true });
}
