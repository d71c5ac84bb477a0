/** What happened when, within one request. */
export interface Step {
  name: string;
  detail: string;
  start: number;
  length: number;
  colour: string;
}

export function Waterfall({ steps, total }: { steps: Step[]; total: number }) {
  const at = (value: number) => (100 * value) / (total || 1);
  return (
    <ul class="waterfall">
      {steps.map((step) => (
        <li key={step.name}>
          <span class="step-name">{step.name}</span>
          <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
            <rect class="track" width="100" height="10" />
            <rect class={step.colour} x={at(step.start)} width={Math.max(0.6, at(step.length))} height="10" />
          </svg>
          <span class="step-detail">{step.detail}</span>
        </li>
      ))}
    </ul>
  );
}
