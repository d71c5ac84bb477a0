/** What was charged, for which tokens, by which price. */
import { count, money } from '../../format';
import type { InferenceWithContent } from '../../generated/api';
import { chargesOf } from './record';

export function CostTab({ row }: { row: InferenceWithContent }) {
  const charges = chargesOf(row);
  return (
    <div class="rows-of">
      <dl class="facts">
        <dt>Cost</dt><dd class="strong">{row.cost_microusd === null ? 'unpriced' : money(row.cost_microusd)}</dd>
        <dt>Tokens</dt><dd>{count(row.input_tokens)} input{row.cached_tokens ? ` (${count(row.cached_tokens)} cached)` : ''}, {count(row.output_tokens)} output{row.reasoning_tokens ? ` (${count(row.reasoning_tokens)} reasoning)` : ''}</dd>
        <dt>Basis</dt><dd>{row.charge_basis ?? 'unknown'}</dd>
        {row.price && <><dt>Price</dt><dd class="mono">{row.price}</dd></>}
        {row.reported_model && <><dt>Host says</dt><dd>{row.reported_model}</dd></>}
        {row.host_cost_microusd !== null && <><dt>Host's own cost</dt><dd>{money(row.host_cost_microusd)}</dd></>}
      </dl>
      {charges.map((each, index) => (
        <div key={index}>
          <h3>{each.provider}/{each.model}</h3>
          <dl class="facts">
            <dt>Charged</dt><dd>{each.cost === null ? 'unpriced' : money(each.cost)}, {each.basis}</dd>
            {each.price && <><dt>Price</dt><dd class="mono">{each.price}</dd></>}
            {each.usage.map(([name, value]) => <><dt>{name}</dt><dd>{count(value)}</dd></>)}
          </dl>
        </div>
      ))}
    </div>
  );
}
