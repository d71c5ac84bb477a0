/** Requests as rows; on a narrow screen, as cards. */
import { count, duration, money, moment } from '../../format';
import type { Inference } from '../../generated/api';
import { here } from '../../router';
import { When } from '../../parts/Head';
import { Status } from '../../parts/Status';
import { Inline } from '../../parts/Text';

const SLOW_US = 10_000_000;

export function RequestTable({ rows, open, choose }: { rows: Inference[]; open: string | null; choose: (row: Inference) => void }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Requests">
      <table class="rows list cards">
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Status</th>
            <th scope="col">Request</th>
            <th scope="col">Asked for → served by</th>
            <th scope="col">Team</th>
            <th scope="col" class="widest">End user</th>
            <th scope="col" class="n">Tokens</th>
            <th scope="col" class="n">Cost</th>
            <th scope="col" class="n">Latency</th>
          </tr>
        </thead>
        <tbody>{rows.map((row) => <Row key={row.id} row={row} on={row.id === open} choose={choose} />)}</tbody>
      </table>
    </div>
  );
}

function Row({ row, on, choose }: { row: Inference; on: boolean; choose: (row: Inference) => void }) {
  const attempts = row.attempts_count, preview = (row as { preview?: string | null }).preview;
  return (
    <tr class={on ? 'on' : ''} onClick={(event) => { if (!(event.target as Element).closest('a') && !getSelection()?.toString()) choose(row); }}>
      <td><a id={`row-${row.id}`} class="mono" href={here({ id: row.id })}><When at={row.received_at} words={moment(row.received_at)} /></a></td>
      <td><Status status={row.status} outcome={row.outcome} /></td>
      <td class="full preview">{preview ? <Inline text={preview} /> : <span class="dim">not kept</span>}</td>
      <td class="preview">
        <Inline text={row.model} />
        {row.variant && <span class="tag">{row.variant}</span>}
        {row.origin && <span class="tag info">{row.origin}</span>}
        <span class="dim"> → {row.served_provider ? <>{row.served_provider}/<Inline text={row.served_model ?? ''} /></> : 'nowhere'}</span>
        {attempts > 1 && <span class="tag warn">{attempts} attempts</span>}
        {row.error && <span class="tag bad">{row.error}</span>}
      </td>
      <td>{row.team ?? <span class="dim">removed</span>}</td>
      <td class="widest preview">{row.end_user ? <Inline text={row.end_user} /> : <span class="dim">–</span>}</td>
      <td class="n wide-only">{row.input_tokens === null && row.output_tokens === null ? '–' : `${count(row.input_tokens)} + ${count(row.output_tokens)}`}</td>
      <td class="n">{money(row.cost_microusd)}</td>
      <td class={`n end${row.duration_us >= SLOW_US ? ' warn' : ''}`}>{duration(row.duration_us)}</td>
    </tr>
  );
}
