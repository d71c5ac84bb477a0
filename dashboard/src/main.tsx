/** The dashboard: signs in, then shows the view that the address names. Views beyond the first are loaded when they are opened. */
import { render } from 'preact';
import { useEffect } from 'preact/hooks';
import { signedOut } from './api';
import { Help, helpShown } from './help';
import { Palette, paletteShown } from './palette';
import { Skeleton } from './parts/States';
import { Toasts } from './parts/Toast';
import { Outlet } from './outlet';
import { startRouting } from './router';
import { loadSession, session, sessionError } from './session';
import { Menu, Top } from './shell';
import { SignIn, SignInDialog } from './sign_in';
import { startTheme } from './theme';

function App() {
  useEffect(() => {
    const open = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        paletteShown.value = true;
      }
    };
    addEventListener('keydown', open);
    return () => removeEventListener('keydown', open);
  }, []);
  if (!session.value) {
    if (signedOut.value || sessionError.value) return <><SignIn /><Toasts /></>;
    return <div class="sign-in"><div class="panel"><Skeleton lines={4} /></div></div>;
  }
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById('main')?.focus(); }}>Skip to content</a>
      <div class="shell">
        <Menu />
        <div>
          <Top />
          <main id="main" tabIndex={-1}><Outlet /></main>
        </div>
      </div>
      {paletteShown.value && <Palette />}
      {helpShown.value && <Help />}
      {signedOut.value && <SignInDialog />}
      <Toasts />
    </>
  );
}

startTheme();
startRouting();
render(<App />, document.getElementById('app')!);
if (!new URLSearchParams(location.hash.slice(1)).has('once')) void loadSession();
else signedOut.value = true;
