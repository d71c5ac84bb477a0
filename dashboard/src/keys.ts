/** Single keys: off while somebody types, and switched off altogether by a setting (WCAG 2.1.4). */
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';

export const keysOff = signal(localStorage.getItem('narthex.keys') === 'off');

export function setKeysOff(off: boolean) {
  keysOff.value = off;
  localStorage.setItem('narthex.keys', off ? 'off' : 'on');
}

function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return !!target && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName) || !!target.closest('dialog'));
}

/** Calls `act` for keys that nobody types into a field. A handled key returns true. */
export function useKeys(act: (key: string, event: KeyboardEvent) => boolean | void) {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
      if (keysOff.value && event.key.length === 1) return;
      if (latest.current(event.key, event)) event.preventDefault();
    };
    addEventListener('keydown', listen);
    return () => removeEventListener('keydown', listen);
  }, []);
}
