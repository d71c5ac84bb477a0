/** Tabs: one is shown, and the arrows move between them. */
export function Tabs<T extends string>(props: { label: string; tabs: { name: T; text: string; count?: number | null }[]; current: T; choose: (name: T) => void }) {
  const move = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const index = props.tabs.findIndex((each) => each.name === props.current);
    const next = props.tabs[(index + step + props.tabs.length) % props.tabs.length]!;
    props.choose(next.name);
    document.getElementById(`tab-${next.name}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={props.label} onKeyDown={move}>
      {props.tabs.map((tab) => (
        <button key={tab.name} id={`tab-${tab.name}`} role="tab" aria-selected={tab.name === props.current} aria-controls={`panel-${tab.name}`} tabIndex={tab.name === props.current ? 0 : -1} onClick={() => props.choose(tab.name)}>
          {tab.text}
          {tab.count != null && tab.count > 0 && <span class="badge">{tab.count}</span>}
        </button>
      ))}
    </div>
  );
}
