/** What is asked for, with its failures, latency and cost. */
import { compact, count, duration, money, share } from '../../format';
import type { Analytics } from '../../generated/api';
import { Empty } from '../../parts/States';
import { to } from '../../router';

export function ModelsPanel({ found }: { found: Analytics }) {
  const rows = found.data, most = Math.max(...rows.map((row) => row.requests), 1);
  return (
    <section class="panel">
      <div class="panel-head"><h2>Models and functions</h2>{found.has_more && <p class="note">the eight with most requests</p>}</div>
      {rows.length === 0 ? (
        <Empty title="Nothing was asked for in this time" />
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Models and functions">
          <table class="rows asked">
            <thead><tr><th scope="col">Name</th><th scope="col" class="n">Requests</th><th scope="col" class="n">Failed</th><th scope="col" class="n">p95</th><th scope="col" class="n">Cost</th></tr></thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.group['model'] ?? ''}>
                  <th scope="row"><a href={to('/requests', { model: row.group['model'] })}>{row.group['model'] || 'no model'}</a></th>
                  <td class="n" title={count(row.requests)}>
                    <span class="bar"><svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect width={(100 * row.requests) / most} height="4" /></svg></span>
                    <span class="amount">{compact(row.requests)}</span>
                  </td>
                  <td class={`n${row.requests > 20 && row.failed / row.requests > 0.05 ? ' bad' : ''}`}>{share(row.failed, row.requests, 1)}</td>
                  <td class="n">{duration(row.duration?.p95)}</td>
                  <td class="n">{money(row.cost_microusd)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
