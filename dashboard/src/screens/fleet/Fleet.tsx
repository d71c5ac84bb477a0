/** Endpoints: what is away and why, load, credentials, draining; and the gateway's own processes. */
import { useState } from 'preact/hooks';
import { call, get } from '../../api';
import { Meter } from '../../charts/Meter';
import { ago, compact, count, plural, span } from '../../format';
import type { EndpointState } from '../../generated/api';
import { Confirm } from '../../parts/Dialog';
import { Head, When } from '../../parts/Head';
import { Empty, Loaded } from '../../parts/States';
import { toast } from '../../parts/Toast';
import { useResource } from '../../resource';
import { to } from '../../router';
import { Doctor } from '../settings/Doctor';
import { may } from '../../session';
import { endpointProblem } from '../overview/Needs';

const REFRESH_S = 5;

export function Fleet() {
  const [drain, setDrain] = useState<EndpointState | null>(null);
  const fleet = useResource('fleet', (signal) => get('GET /fleet', { query: { limit: 200 }, signal }), REFRESH_S);
  const workers = useResource('workers', (signal) => get('GET /workers', { query: { limit: 100 }, signal }), REFRESH_S * 3);
  const problems = fleet.data?.data.filter((each) => endpointProblem(each)) ?? [];
  const waiting = Object.values(fleet.data?.waiting ?? {}).reduce((a, b) => a + b, 0);
  return (
    <>
      <Head title="Fleet" tags={fleet.data && <span class={`tag ${problems.length ? 'bad' : 'ok'}`}>{problems.length ? plural(problems.length, 'problem') : 'all well'}</span>} about={fleet.data && <>{plural(fleet.data.data.length, 'endpoint')}{waiting > 0 && `, ${plural(waiting, 'request')} waiting for one`} · as the gateway process sees it that answers · every {REFRESH_S} s</>} />
      <div class="rows-of">
        <LoadedSteady from={fleet}>
          {(data) => (data.data.length === 0 ? (
            <section class="panel"><Empty title="No endpoint"><p>Endpoints are where models are served. They come from the targets of models, or register themselves.</p><a class="button" href={to('/models')}>Models</a></Empty></section>
          ) : (
            [...groupByProvider(data.data)].map(([provider, endpoints]) => (
              <section class="panel flush" key={provider}>
                <div class="panel-head"><h2>{provider}</h2><p class="note">{[...new Set(endpoints.map((each) => each.adapter))].join(', ')}</p></div>
                <div class="scroll" tabIndex={0} role="region" aria-label={`Endpoints of ${provider}`}>
                  <table class="rows list cards fleet">
                    <thead><tr><th scope="col">Endpoint</th><th scope="col">Health</th><th scope="col">Engine</th><th scope="col">Serves</th><th scope="col" class="n">In flight</th><th scope="col">Connections</th><th scope="col" class="n" title="Tokens that wait or are in progress there">Queued</th><th scope="col">Last answer</th><th scope="col"><span class="sr">Acts</span></th></tr></thead>
                    <tbody>{endpoints.map((each) => <EndpointRow key={each.endpoint} row={each} drain={() => setDrain(each)} />)}</tbody>
                  </table>
                </div>
              </section>
            ))
          ))}
        </LoadedSteady>
        <LoadedSteady from={workers}>
          {(data) => (
            <section class="panel flush">
              <div class="panel-head"><h2>Gateway processes</h2><p class="note">{data.data.every((each) => each.current) ? 'all serve the newest configuration' : 'some do not serve the newest configuration yet'}</p></div>
              <div class="scroll" tabIndex={0} role="region" aria-label="Gateway processes">
                <table class="rows list cards"><thead><tr><th scope="col">Process</th><th scope="col" class="n">Version</th><th scope="col">Serves</th><th scope="col">Seen</th></tr></thead><tbody>{data.data.map((each) => <tr key={each.id}><th scope="row" class="mono">{each.id}</th><td class="n" data-name="version">{each.version}</td><td><span class={`tag ${each.current ? 'ok' : 'warn'}`}>{each.current ? 'the newest' : 'an older one'}</span></td><td><When at={each.seen_at} words={ago(each.seen_at)} /></td></tr>)}</tbody></table>
              </div>
            </section>
          )}
        </LoadedSteady>
      </div>
      <Doctor />
      {drain && (
        <Confirm
          title={drain.drained ? `Use ${drain.endpoint} again` : `Drain ${drain.endpoint}`}
          act={drain.drained ? 'Use it again' : 'Drain'}
          close={() => setDrain(null)}
          run={async () => {
            await call('POST /fleet/drain', { body: { endpoint: drain.endpoint, provider: drain.provider, drained: !drain.drained } });
            toast(drain.drained ? 'It gets requests again' : 'It gets no new requests');
            fleet.reload();
          }}
        >
          <p>{drain.drained ? 'It gets new requests from now on.' : `It gets no new requests; the ${count(drain.in_flight)} in progress go on until they end.`}</p>
        </Confirm>
      )}
    </>
  );
}

/** As Loaded, but what is asked again every few seconds is not dimmed meanwhile. */
function LoadedSteady<T>({ from, children }: Parameters<typeof Loaded<T>>[0]) {
  return <Loaded from={{ ...from, loading: from.data === undefined && from.loading }}>{children}</Loaded>;
}

function groupByProvider(rows: EndpointState[]): Map<string, EndpointState[]> {
  const found = new Map<string, EndpointState[]>();
  for (const row of rows) found.set(row.provider, [...(found.get(row.provider) ?? []), row]);
  return new Map([...found].sort(([, a], [, b]) => Number(b.some(endpointProblem)) - Number(a.some(endpointProblem))));
}

function EndpointRow({ row, drain }: { row: EndpointState; drain: () => void }) {
  const problem = endpointProblem(row);
  return (
    <>
      <tr>
        <th scope="row" class="full mono">{row.endpoint}{row.registered && <span class="tag">registered</span>}</th>
        <td><span class={`tag ${problem ? problem.tone : row.drained ? 'info' : row.health === 'ready' ? 'ok' : ''}`}>{problem ? problem.kind.toLowerCase() : row.drained ? 'drained' : row.health.replaceAll('_', ' ')}</span></td>
        <td>{row.engine ? `${row.engine}${row.version ? ` ${row.version}` : ''}` : <span class="dim">{row.served_as}</span>}</td>
        <td class="preview" title={row.serves.join(', ')}>{row.serves.join(', ') || <span class="dim">no model</span>}</td>
        <td class="n" data-name="in flight">{count(row.in_flight)}</td>
        <td class="connections"><small>{count(row.connections.busy)} of {count(row.connections.max)}{row.connections.waiting > 0 && `, ${count(row.connections.waiting)} waiting`}</small><Meter used={row.connections.busy} of={row.connections.max} label={`${row.connections.busy} of ${row.connections.max} connections are busy`} /></td>
        <td class="n wide-only">{compact(row.load.queued_tokens)}</td>
        <td>{row.last_response_at ? <When at={row.last_response_at} words={ago(row.last_response_at)} /> : <span class="dim">none yet</span>}</td>
        <td class="n">{may('engines:operate') && <button class="button small" onClick={drain}>{row.drained ? 'Use again …' : 'Drain …'}</button>}</td>
      </tr>
      {(problem || row.credentials.some((each) => each.cooldown_s > 0 || each.refused)) && (
        <tr class="aside">
          <td colSpan={9} class="full">
            {problem && <span class="wrap">It {problem.title}. {problem.detail}</span>}
            {row.credentials.filter((each) => each.cooldown_s > 0 || each.refused).map((each, index) => <span key={index} class="tag warn">{each.reference ?? 'credential'}: {each.refused ? 'refused' : `waits ${span(each.cooldown_s)}`}</span>)}
          </td>
        </tr>
      )}
    </>
  );
}
