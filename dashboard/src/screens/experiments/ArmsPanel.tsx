/** The arms: their share, and how many units each has. */
import { count, percent } from '../../format';
import type { ExperimentResults, ShownExperiment } from '../../generated/api';
import { to } from '../../router';

export function ArmsPanel({ experiment, results }: { experiment: ShownExperiment; results: ExperimentResults }) {
  const weights = experiment.version?.arms ?? {}, sum = Object.values(weights).reduce((a, b) => a + b, 0) || 1;
  const stopped = new Set(experiment.settings?.stopped ?? []);
  return (
    <section class="panel">
      <div class="panel-head"><h2>Arms</h2><p class="note">{experiment.version ? `${percent(experiment.version.enrolment, 0)} of units take part` : ''}</p></div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Arms">
        <table class="rows">
          <thead><tr><th scope="col">Arm</th><th scope="col" class="n">Share</th><th scope="col" class="n">Units</th><th scope="col" class="n">Complete</th><th scope="col" class="n">Requests counted</th></tr></thead>
          <tbody>
            {results.arms.map((each) => (
              <tr key={each.arm}>
                <th scope="row"><a href={to('/requests', { experiment: experiment.name, variant: each.arm })}>{each.arm}</a>{each.arm === results.control && <span class="tag">control</span>}{stopped.has(each.arm) && <span class="tag bad">stopped</span>}{each.arm === experiment.winner && <span class="tag ok">promoted</span>}</th>
                <td class="n">{percent((weights[each.arm] ?? 0) / sum, 0)}</td>
                <td class="n">{count(each.units)}</td>
                <td class="n">{count(each.complete)}</td>
                <td class="n">{count(each.inferences)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
