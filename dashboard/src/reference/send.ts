/** Sends a request from this page, and passes on what comes of it, as it comes: a stream is shown while it runs. */

export interface Request {
  method: string;
  address: string;
  headers: Record<string, string>;
  body: string | null;
  credentials: 'same-origin' | 'omit';
}

export interface Sent {
  status: number | null;
  headers: [string, string][];
  text: string;
  /** Bytes that came; `text` may hold fewer of them. */
  bytes: number;
  isBinary: boolean;
  ms: number;
  ended: boolean;
  fault: string | null;
}

const MAX_CHARACTERS = 1_000_000;
const TEXT = /^(text\/|application\/(json|[\w.-]+\+json|jsonl|x-ndjson|toml|yaml|csv|openmetrics-text))/;

export async function send(request: Request, signal: AbortSignal, show: (sent: Sent) => void): Promise<void> {
  const began = performance.now();
  const sent: Sent = { status: null, headers: [], text: '', bytes: 0, isBinary: false, ms: 0, ended: false, fault: null };
  const pass = (more: Partial<Sent>) => show(Object.assign(sent, more, { ms: performance.now() - began }) && { ...sent });
  pass({});
  try {
    const response = await fetch(request.address, { method: request.method, headers: request.headers, body: request.body, credentials: request.credentials, cache: 'no-store', redirect: 'manual', signal });
    const type = response.headers.get('content-type') ?? '';
    if (response.type === 'opaqueredirect') return pass({ ended: true, fault: 'It redirects to another page: open its address itself.' });
    pass({ status: response.status, headers: [...response.headers], isBinary: type !== '' && !TEXT.test(type) });
    await read(response, sent, pass);
    pass({ ended: true });
  } catch (fault) {
    const stopped = fault instanceof DOMException && fault.name === 'AbortError';
    pass({ ended: true, fault: stopped ? 'You stopped it.' : `There was no response, or it broke off: ${fault instanceof Error ? fault.message : String(fault)}` });
  }
}

async function read(response: Response, sent: Sent, pass: (more: Partial<Sent>) => void): Promise<void> {
  const reader = response.body?.getReader();
  if (!reader) return;
  const decoder = new TextDecoder();
  let shown = performance.now();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    sent.bytes += value.byteLength;
    if (!sent.isBinary && sent.text.length < MAX_CHARACTERS) sent.text += decoder.decode(value, { stream: true });
    // A redraw for each piece of a fast stream would take longer than the stream.
    if (performance.now() - shown > 100) {
      shown = performance.now();
      pass({});
    }
  }
  sent.text = (sent.text + decoder.decode()).slice(0, MAX_CHARACTERS);
}
