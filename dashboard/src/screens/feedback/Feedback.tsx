/** What people and programs say of requests and conversations: each event, the sums of a metric, and the metrics themselves. */
import { useState } from 'preact/hooks';
import { apiAddress, get } from '../../api';
import { compact, count, moment, percent, signed } from '../../format';
import type { FeedbackEvent, MetricEntry } from '../../generated/api';
import { EditPage } from '../../forms/EditPage';
import { Head, When } from '../../parts/Head';
import { Empty, Loaded } from '../../parts/States';
import { Inline } from '../../parts/Text';
import { useResource } from '../../resource';
import { go, here, place, to } from '../../router';
import { scopeTeam, timeRange } from '../../scope';
import { may, session } from '../../session';

const PAGE = 50;

export function Feedback() {
  const query = place.value.query, edited = query.getAll('edit'), tab = query.get('tab');
  if (query.has('new')) return <EditPage key="new" section="metrics" keys={null} />;
  if (edited.length) return <EditPage key={edited.join('/')} section="metrics" keys={edited} />;
  const metric = query.get('metric'), range = timeRange();
  return (
    <>
      <Head title="Feedback" about="What callers say of requests and conversations">
        {may('config:read') && <nav class="segments" aria-label="What to see"><a href={here({ tab: null })} aria-current={tab === 'metrics' ? undefined : 'true'}>Events</a><a href={here({ tab: 'metrics' })} aria-current={tab === 'metrics' ? 'true' : undefined}>Metrics</a></nav>}
        {tab === 'metrics' ? may('config:write') && <a class="button primary" href={here({ new: 1 })}>New metric</a> : <a class="button" download href={apiAddress('/feedback/export', {}, { format: 'csv', since: range.since, team: scopeTeam(), metric })}>Export</a>}
      </Head>
      {tab === 'metrics' ? <Metrics /> : <><Filters />{metric && <Sums metric={metric} />}<Events /></>}
    </>
  );
}

function useMetrics() {
  return useResource(may('config:read') ? 'metrics' : null, (signal) => get('GET /metrics', { query: { limit: 200, sort: 'name' }, signal }));
}

function Filters() {
  const query = place.value.query, metrics = useMetrics().data?.data ?? [], chosen = query.get('metric') ?? '';
  const names = [...new Set([...metrics.map((each) => each.name), ...(chosen ? [chosen] : [])])];
  const toggle = (name: string, value: string, text: string) => { const on = query.get(name) === value; return <a class={`chip${on ? ' on' : ''}`} href={here({ [name]: on ? null : value })}>{text}{on && ' ✕'}</a>; };
  return (
    <div class="filters">
      <label><span class="sr">Metric</span><select value={chosen} onChange={(event) => go(here({ metric: event.currentTarget.value || null }))}><option value="">every metric</option>{names.map((each) => <option key={each} value={each}>{each}</option>)}</select></label>
      {toggle('history', '1', 'also what no longer counts')}
      {toggle('matched', 'false', 'about nothing that is recorded')}
      {(['function', 'variant', 'model'] as const).filter((name) => query.get(name)).map((name) => <a key={name} class="chip on" href={here({ [name]: null })}>{name} is {query.get(name)} ✕</a>)}
    </div>
  );
}

function Sums({ metric }: { metric: string }) {
  const team = scopeTeam(), days = Math.max(1, Math.min(400, Math.round(timeRange().seconds / 86_400)));
  const found = useResource(`feedback-sums|${session.value?.id}|${metric}|${days}|${team}`, (signal) => get('GET /feedback/sums', { query: { metric, days, team }, signal }));
  return (
    <Loaded from={found} lines={3}>
      {(sums) => (sums.data.length === 0 ? <></> : (
        <section class="panel flush">
          <div class="panel-head"><h2>{metric}</h2><p class="note">of what counts, in the last {days === 1 ? 'day' : `${days} days`}; which is better, only an experiment says</p></div>
          <div class="scroll" tabIndex={0} role="region" aria-label={`Sums of ${metric}`}>
            <table class="rows list cards still">
              <thead><tr><th scope="col">Model or function</th><th scope="col">Variant</th><th scope="col" class="n">Feedback</th><th scope="col" class="n">Mean</th><th scope="col" class="n">Least</th><th scope="col" class="n">Most</th></tr></thead>
              <tbody>{sums.data.slice(0, 20).map((each, at) => <tr key={at}><th scope="row" class="full"><a href={here({ function: each.function, model: each.function ? null : each.model, variant: each.variant })}>{each.function ?? each.model ?? 'not known'}</a>{each.not_enrolled && <span class="tag">does not count in its experiment: {each.not_enrolled.replaceAll('_', ' ')}</span>}</th><td>{each.variant ?? <span class="dim">–</span>}</td><td class="n" data-name="feedback">{compact(each.count)}</td><td class="n" data-name="mean">{value(each.mean, each)}</td><td class="n wide-only">{value(each.minimum, each)}</td><td class="n wide-only">{value(each.maximum, each)}</td></tr>)}</tbody>
            </table>
          </div>
        </section>
      ))}
    </Loaded>
  );
}

/** Of booleans the mean is a share. */
const value = (number: number | null, sums: { minimum: number | null; maximum: number | null }) => (number === null ? '–' : sums.minimum !== null && sums.minimum >= 0 && sums.maximum !== null && sums.maximum <= 1 ? percent(number, 1) : signed(number, 2).replace('+', ''));

function Events() {
  const query = place.value.query, range = timeRange(), team = scopeTeam();
  const filters = { team, metric: query.get('metric'), function: query.get('function'), variant: query.get('variant'), model: query.get('model'), matched: query.get('matched') === 'false' ? false : null, current: query.get('history') === '1' || query.get('matched') === 'false' ? null : true, since: range.since, until: range.open ? null : range.until };
  const key = `feedback-list|${session.value?.id}|${JSON.stringify({ ...filters, since: range.name ?? range.since })}`;
  const found = useResource(key, (signal) => get('GET /feedback', { query: { ...filters, limit: PAGE }, signal }));
  const [more, setMore] = useState<{ key: string; rows: FeedbackEvent[]; next: string | null } | null>(null), older = more?.key === key ? more : null;
  const load = async (after: string) => {
    const page = await get('GET /feedback', { query: { ...filters, limit: PAGE, after } });
    setMore({ key, rows: [...(older?.rows ?? []), ...page.data], next: page.next });
  };
  return (
    <Loaded from={found} lines={10}>
      {(page) => {
        const rows = [...page.data, ...(older?.rows ?? [])], next = older ? older.next : page.next;
        if (!rows.length) return <section class="panel"><Empty title="No feedback"><p>In this time, and with these filters, nobody said anything. Callers send feedback to <code>/feedback</code> with the id of a request or conversation.</p></Empty></section>;
        return (
          <section class="panel flush">
            <div class="scroll" tabIndex={0} role="region" aria-label="Feedback">
              <table class="rows list cards still">
                <thead><tr><th scope="col">Time</th><th scope="col">Metric</th><th scope="col">Value</th><th scope="col">About</th><th scope="col">Function or model</th><th scope="col">Variant</th><th scope="col">Team</th></tr></thead>
                <tbody>{rows.map((each) => (
                  <tr key={each.id}>
                    <td class="mono"><When at={each.received_at} words={moment(each.received_at)} /></td>
                    <th scope="row">{each.metric ?? each.kind ?? 'withdrawn'}{each.action !== 'create' && <span class="tag">{each.action}</span>}{!each.current && <span class="tag warn">does not count</span>}</th>
                    <td class="preview full"><Value event={each} /></td>
                    <td>{each.level === 'episode' && each.episode_id ? <a class="link" href={to(`/conversations/${each.episode_id}`)}>a conversation</a> : each.inference_id ? <a class="link" href={to('/requests', { id: each.inference_id })}>a request</a> : <span class="dim">–</span>}{each.matched_at === null && <span class="tag warn">not found</span>}</td>
                    <td class="preview">{each.function ?? each.model ?? <span class="dim">–</span>}</td>
                    <td>{each.variant ?? <span class="dim">–</span>}</td>
                    <td class="end">{each.team ?? <span class="dim">removed</span>}</td>
                  </tr>
                ))}</tbody>
              </table>
            </div>
            <p class="more">{next ? <button class="button" onClick={() => void load(next)}>Older</button> : <span class="dim">These are all {count(rows.length)}.</span>}</p>
          </section>
        );
      }}
    </Loaded>
  );
}

function Value({ event }: { event: FeedbackEvent }) {
  if (typeof event.value === 'boolean') return <span class={`tag ${event.value ? 'ok' : 'bad'}`}>{event.value ? 'yes' : 'no'}</span>;
  if (event.value == null) return <span class="dim">{event.content === 'none' || event.content === 'erased' ? 'not kept' : '–'}</span>;
  return typeof event.value === 'string' ? <Inline text={event.value} /> : <Inline text={JSON.stringify(event.value)} />;
}

function Metrics() {
  const found = useMetrics();
  return (
    <Loaded from={found}>
      {(page) => (page.data.length === 0 ? <section class="panel"><Empty title="No metric"><p>A metric is what callers may send feedback for: yes or no, a number, a comment, or a better response.</p>{may('config:write') && <a class="button" href={here({ new: 1 })}>New metric</a>}</Empty></section> : (
        <section class="panel flush">
          <div class="scroll" tabIndex={0} role="region" aria-label="Metrics">
            <table class="rows list cards still">
              <thead><tr><th scope="col">Metric</th><th scope="col">Kind</th><th scope="col">About</th><th scope="col">Better is</th><th scope="col">What it says</th><th scope="col"><span class="sr">Acts</span></th></tr></thead>
              <tbody>{page.data.map((each: MetricEntry) => <tr key={each.name}><th scope="row" class="full"><a href={here({ tab: null, metric: each.name })}>{each.name}</a></th><td>{each.kind}</td><td>{each.level === 'episode' ? 'a conversation' : 'a request'}</td><td>{each.optimize === 'max' ? 'more' : each.optimize === 'min' ? 'less' : <span class="dim">neither</span>}</td><td class="preview full">{each.description ?? <span class="dim">–</span>}</td><td class="n end">{may('config:write') && <a class="button small" href={here({ edit: each.name })}>Change …</a>}</td></tr>)}</tbody>
            </table>
          </div>
        </section>
      ))}
    </Loaded>
  );
}
