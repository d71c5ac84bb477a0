/** What `narthex doctor` finds on the machine of the process that answers. It takes some seconds. */
import { get } from '../../api';
import { ago, plural } from '../../format';
import { When } from '../../parts/Head';
import { Fault, Skeleton } from '../../parts/States';
import { useResource } from '../../resource';

/** `all`: also what is well. */
export function Doctor({ all = false }: { all?: boolean }) {
  const found = useResource('doctor', (signal) => get('GET /doctor', { signal }));
  const shown = found.data?.data.filter((each) => all || each.severity !== 'ok') ?? [];
  return (
    <section class="panel">
      <div class="panel-head"><h2>Doctor</h2><p class="note">{found.data ? <>checked <When at={found.data.checked_at} words={ago(found.data.checked_at)} />, {plural(found.data.data.filter((each) => each.severity === 'ok').length, 'check')} passed</> : 'looks at settings, stores, engines and limits'}</p>{found.data && <button class="button small" onClick={found.reload}>Check again</button>}</div>
      {found.error && !found.data ? <Fault error={found.error} retry={found.reload} /> : !found.data ? <Skeleton lines={4} /> : (
        <ul class="findings">
          {found.data.data.every((each) => each.severity === 'ok') && <li class="all-well"><i />Nothing is wrong.</li>}
          {shown.map((each) => <li key={each.area + each.message}><span class={`severity ${each.severity === 'error' ? 'bad' : each.severity === 'ok' ? 'ok' : 'warn'}`}>{each.severity}</span><span class="wrap"><b>{each.area}</b> {each.message}{each.advice && <small>{each.advice}</small>}</span></li>)}
        </ul>
      )}
    </section>
  );
}
