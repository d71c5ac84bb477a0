/** The request as curl, Python and JavaScript, with what was said before it. */
import { useState } from 'preact/hooks';
import { ApiError } from '../../api';
import { Dialog } from '../../parts/Dialog';
import { Snippet } from '../../parts/Snippet';
import { Tabs } from '../../parts/Tabs';
import { session } from '../../session';
import { snippet } from './snippets';
import type { Language } from './snippets';
import { draft, modelOf, requestToShow, turns } from './state';
import type { Side } from './state';

/** Where callers send requests: perhaps at another port than this page. */
export function callersBase(): string {
  const port = session.value?.callers_port;
  return port == null ? location.origin : `${location.protocol}//${location.hostname}:${port}`;
}

export function Code({ sides, close }: { sides: Side[]; close: () => void }) {
  const [language, setLanguage] = useState<Language>('curl'), [side, setSide] = useState<Side>(0);
  let text = '', fault: ApiError | null = null;
  try {
    text = snippet(language, callersBase(), requestToShow(side));
  } catch (wrong) {
    fault = wrong instanceof ApiError ? wrong : new ApiError(0, String(wrong), null, null, null, null);
  }
  const hasImages = draft.value.images.length > 0 || turns.value[side].some((turn) => turn.sent.some((each) => typeof each.content !== 'string'));
  return (
    <Dialog title="The same request from a program" close={close}>
      <div class="form">
        {sides.length > 1 && <div class="actions" role="group" aria-label="Whose request">{sides.map((each) => <button key={each} class="button small" aria-pressed={side === each} onClick={() => setSide(each)}>{modelOf(each) || 'no model'}</button>)}</div>}
        <Tabs label="Language" current={language} choose={setLanguage} tabs={[{ name: 'curl', text: 'curl' }, { name: 'python', text: 'Python' }, { name: 'javascript', text: 'JavaScript' }]} />
        <div id={`panel-${language}`} role="tabpanel" aria-labelledby={`tab-${language}`}>
          {fault ? <p class="bad" role="alert">{fault.message}</p> : <Snippet text={text} what="The request" />}
        </div>
        <p class="note">Put a key into the variable <code>NARTHEX_KEY</code>: none is in this page.{hasImages && ' The bytes of images are left out.'}{language !== 'curl' && ' It takes the package openai.'}</p>
        <div class="dialog-foot"><button class="button" onClick={close}>Close</button></div>
      </div>
    </Dialog>
  );
}
