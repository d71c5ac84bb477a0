/** The deciding metric within parts of the units: for questions, not for conclusions. */
import { count } from '../../format';
import type { ExperimentResults } from '../../generated/api';
import { differenceText, inUnit, primaryOf } from './verdict';

export function PartsPanel({ results }: { results: ExperimentResults }) {
  const metric = primaryOf(results);
  if (!metric?.parts.length) return null;
  return (
    <section class="panel">
      <div class="panel-head"><h2>{metric.metric} in parts</h2><p class="note">To ask questions with: among many parts one looks different by chance.</p></div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Parts">
        <table class="rows">
          <thead><tr><th scope="col">Part</th><th scope="col">Arm</th><th scope="col" class="n">Units</th><th scope="col" class="n">Value</th><th scope="col" class="n">Difference</th><th scope="col" class="n">Between</th><th scope="col">Verdict</th></tr></thead>
          <tbody>
            {metric.parts.slice(0, 60).flatMap((part) => part.comparisons.map((each) => (
              <tr key={`${part.name}-${part.value}-${each.arm}`}>
                <th scope="row">{part.name.replaceAll('_', ' ')}: {part.value}</th>
                <td>{each.arm}</td>
                <td class="n">{count(each.units)}</td>
                <td class="n">{inUnit(metric, part.arms.find((arm) => arm.arm === each.arm)?.value ?? null)}</td>
                <td class="n">{differenceText(metric, each.difference)}</td>
                <td class="n">{differenceText(metric, each.interval?.low ?? null)} to {differenceText(metric, each.interval?.high ?? null)}</td>
                <td>{each.verdict}</td>
              </tr>
            )))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
