/** What came of a request that the reader sent: status, time, headers and body, as text. */
import { count, duration } from '../format';
import { pretty, Text } from '../parts/Text';
import type { Sent } from './send';

export function SentView({ sent }: { sent: Sent }) {
  const { status } = sent, tone = status === null ? '' : status < 300 ? 'ok' : status < 400 ? 'info' : 'bad';
  return (
    <div class="sent" role="status" aria-busy={!sent.ended}>
      <p class="sent-head">
        {status !== null && <span class={`tag ${tone}`}>{status}</span>}
        <span>{duration(Math.round(sent.ms * 1000))}</span>
        <span class="dim">{count(sent.bytes)} bytes{sent.ended ? '' : ' so far'}</span>
      </p>
      {sent.fault && <p class="bad">{sent.fault}</p>}
      {sent.headers.length > 0 && (
        <details class="inner">
          <summary>{count(sent.headers.length)} headers</summary>
          <dl class="facts">{sent.headers.map(([name, value]) => <><dt key={name} class="mono">{name}</dt><dd class="mono">{value}</dd></>)}</dl>
        </details>
      )}
      {sent.isBinary ? <p class="note">It is not text, and is not shown.</p> : sent.text && <Text text={sent.ended ? pretty(sent.text) : sent.text} code />}
    </div>
  );
}
