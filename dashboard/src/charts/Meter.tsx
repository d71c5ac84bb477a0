/** How much of an amount is used: spent, held by requests in progress, and where it will be at the end by today's rate. */
export function Meter(props: { used: number; held?: number; forecast?: number | null; of: number; label: string }) {
  const at = (value: number) => Math.max(0, Math.min(100, (100 * value) / (props.of || 1)));
  const share = props.used / (props.of || 1), tone = share >= 0.95 ? 'bad' : share >= 0.8 ? 'warn' : '';
  const forecast = props.forecast != null && props.forecast > props.used ? at(props.forecast) : null;
  return (
    <svg class={`meter ${tone}`} viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={props.label}>
      <rect class="track" width="100" height="6" />
      {forecast !== null && <rect class="forecast" width={forecast} height="6" />}
      <rect class="held" width={at(props.used + (props.held ?? 0))} height="6" />
      <rect class="used" width={at(props.used)} height="6" />
    </svg>
  );
}
