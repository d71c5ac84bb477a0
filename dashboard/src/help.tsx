/** The keys, as ? lists them. */
import { signal } from '@preact/signals';
import { Dialog } from './parts/Dialog';
import { Check } from './parts/Field';
import { keysOff, setKeysOff } from './keys';
import { VIEWS } from './views';

export const helpShown = signal(false);

const KEYS: [string, string][] = [
  ['Ctrl K', 'Find a view, a name, or any id'],
  ['/', 'Add a filter'],
  ['J, K', 'Next and previous request'],
  ['Enter', 'Open the request'],
  ['Escape', 'Close what is open'],
  ['L', 'Follow new requests, or stop'],
  ['Y', 'Copy a link to this view, with its time'],
  ['?', 'These keys'],
];

export function Help() {
  return (
    <Dialog title="Keys" close={() => (helpShown.value = false)}>
      <dl class="facts">
        {KEYS.map(([key, text]) => <><dt><kbd>{key}</kbd></dt><dd>{text}</dd></>)}
        {VIEWS.filter((view) => view.seen()).map((view) => <><dt><kbd>G</kbd> <kbd>{view.key.toUpperCase()}</kbd></dt><dd>{view.name}</dd></>)}
      </dl>
      <Check label="Single keys do something (Ctrl K always does)" checked={!keysOff.value} set={(on) => setKeysOff(!on)} />
      <div class="dialog-foot"><button class="button" onClick={() => (helpShown.value = false)}>Close</button></div>
    </Dialog>
  );
}
