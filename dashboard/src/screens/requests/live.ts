/** New requests as they are stored: one stream, the filters kept, redrawn four times a second at most. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { apiAddress } from '../../api';
import { count } from '../../format';
import type { Inference } from '../../generated/api';

const KEPT = 200, REDRAW_MS = 250, HIDDEN_MS = 60_000;

export function useTail(on: boolean, filters: Record<string, string | number | string[]>): { rows: Inference[]; note: string } {
  const [rows, setRows] = useState<Inference[]>([]), [note, setNote] = useState('');
  const waiting = useRef<Inference[]>([]);
  const { since: _since, until: _until, text, ...followed } = filters;
  const key = JSON.stringify(followed);
  useEffect(() => {
    setRows([]);
    waiting.current = [];
    if (!on) {
      setNote('');
      return;
    }
    if (text !== undefined) {
      setNote('New requests cannot be followed by what was written: remove that filter to follow them.');
      return;
    }
    let source: EventSource | null = null, hiddenSince = 0, seen = 0;
    const start = () => {
      source = new EventSource(apiAddress('/inferences/tail', {}, followed), { withCredentials: true });
      setNote('Following new requests …');
      source.addEventListener('inference', (event) => {
        waiting.current.push(JSON.parse((event as MessageEvent<string>).data) as Inference);
        seen++;
      });
      source.addEventListener('missed', (event) => setNote((JSON.parse((event as MessageEvent<string>).data) as { message: string }).message));
      source.addEventListener('end', (event) => {
        const end = JSON.parse((event as MessageEvent<string>).data) as { reason: string; message: string };
        if (end.reason === 'access_ended') source?.close();
        setNote(end.message);
      });
      source.onerror = () => setNote(source?.readyState === EventSource.CLOSED ? 'New requests cannot be followed now: too many pages follow them, or your session has ended.' : 'The connection broke; it is tried again.');
      source.onopen = () => setNote('Following new requests …');
    };
    const redraw = setInterval(() => {
      if (document.visibilityState === 'hidden') {
        hiddenSince ||= Date.now();
        if (source && Date.now() - hiddenSince > HIDDEN_MS) {
          source.close();
          source = null;
          setNote('Paused, as this page was hidden.');
        }
        return;
      }
      hiddenSince = 0;
      source ??= (start(), source);
      if (!waiting.current.length) return;
      const newer = waiting.current.reverse();
      waiting.current = [];
      setRows((before) => [...newer, ...before].slice(0, KEPT));
      setNote(`Following new requests: ${count(seen)} since you looked`);
    }, REDRAW_MS);
    start();
    return () => {
      clearInterval(redraw);
      source?.close();
    };
  }, [on, key, text]);
  return { rows, note };
}
