/** How a request ended: by shape and word, never by colour alone. */
export function Status({ status, outcome }: { status: number; outcome: string }) {
  return (
    <span class={`status ${outcome}`} title={outcome}>
      <i />
      {status}
      <span class="sr"> {outcome}</span>
    </span>
  );
}
