/** Budgets with what is left and where they end; limits with whom they refused; overrides. */
import { useState } from 'preact/hooks';
import { ask } from '../../analytics';
import { call, get } from '../../api';
import type { ApiError } from '../../api';
import { Meter } from '../../charts/Meter';
import { ago, compact, count, dollars, moment, percent, plural } from '../../format';
import type { BudgetInUse, LimitEntry, Override } from '../../generated/api';
import { Confirm } from '../../parts/Dialog';
import { Field } from '../../parts/Field';
import { Head, When } from '../../parts/Head';
import { Empty, Loaded } from '../../parts/States';
import { toast } from '../../parts/Toast';
import { useResource } from '../../resource';
import { go, here, place, to } from '../../router';
import { scopeTeam, timeRange } from '../../scope';
import { may, session } from '../../session';
import { limitWords } from '../teams/KeyView';
import { LimitForm } from './LimitForm';
import { byEnd, endWords } from './end';

type Tab = 'budgets' | 'limits' | 'overrides' | 'unmatched';
const TABS: [Tab, string][] = [['budgets', 'Budgets'], ['limits', 'Limits'], ['overrides', 'Overrides'], ['unmatched', 'Never matched']];

export function Limits() {
  const query = place.value.query, tab = (query.get('tab') as Tab | null) ?? 'budgets', making = may('config:write') ? query.get('new') : null;
  const [round, setRound] = useState(0);
  const close = () => { go(here({ new: null }), { replace: true }); setRound(round + 1); };
  return (
    <>
      <Head title="Limits and budgets">
        <nav class="segments" aria-label="What to see">{TABS.map(([name, text]) => <a key={name} href={here({ tab: name === 'budgets' ? null : name })} aria-current={tab === name ? 'true' : undefined}>{text}</a>)}</nav>
        {may('config:write') && <a class="button primary" href={here({ new: tab === 'limits' ? 'limit' : 'budget' })}>{tab === 'limits' ? 'New limit' : 'New budget'}</a>}
      </Head>
      {tab === 'budgets' && <Budgets round={round} changed={() => setRound(round + 1)} />}
      {tab === 'limits' && <LimitList round={round} changed={() => setRound(round + 1)} />}
      {tab === 'overrides' && <Overrides round={round} changed={() => setRound(round + 1)} />}
      {tab === 'unmatched' && <Unmatched />}
      {(making === 'budget' || making === 'limit') && <LimitForm budget={making === 'budget'} close={close} />}
    </>
  );
}

interface Changing {
  round: number;
  changed: () => void;
}

export const scopeWords = (scope: Record<string, string>) => (Object.entries(scope).map(([name, value]) => (name === 'all' ? 'everything together' : value === 'each' ? `each ${name}` : `${name} ${value}`)).join(', ') || 'everything together');

function Budgets({ round, changed }: Changing) {
  const team = scopeTeam(), [act, setAct] = useState<{ kind: 'change' | 'override' | 'remove'; budget: BudgetInUse } | null>(null);
  const found = useResource(`budgets|${session.value?.id}|${team}|${round}`, (signal) => get('GET /budgets', { query: { limit: 200, team }, signal }), 60);
  return (
    <>
      <Loaded from={found}>
        {(page) => {
          const budgets = byEnd(page.data);
          if (!budgets.length) return <section class="panel"><Empty title={team ? 'No budget names this team' : 'No budget is set'}><p>A budget says what a team, a key, a model or everybody may cost in a day, a week or a month; what would cost more is refused with a 429.</p></Empty></section>;
          return (
            <section class="panel">
              <ul class="budget-rows">
                {budgets.map((each) => <BudgetRow key={each.name} budget={each} act={(kind) => setAct({ kind, budget: each })} />)}
              </ul>
            </section>
          );
        }}
      </Loaded>
      {act?.kind === 'change' && <ChangeAmount name={act.budget.name} amount={act.budget.amount} budget close={() => setAct(null)} changed={changed} />}
      {act?.kind === 'override' && <OverrideForm budget={act.budget} close={() => setAct(null)} changed={changed} />}
      {act?.kind === 'remove' && <Remove name={act.budget.name} budget close={() => setAct(null)} changed={changed} />}
    </>
  );
}

function BudgetRow({ budget, act }: { budget: BudgetInUse; act: (kind: 'change' | 'override' | 'remove') => void }) {
  const [open, setOpen] = useState(false), usage = budget.usage;
  const subjects = useResource(open ? `subjects|${budget.name}` : null, (signal) => get('GET /budgets/{name}/subjects', { path: { name: budget.name }, query: { limit: 20 }, signal }));
  return (
    <li>
      <div class="budget-name">
        <b>{budget.name}</b>
        <small>{scopeWords(budget.scope)} · {dollars(budget.amount)} a {budget.per ?? 'month'}{budget.dry_run && <span class="tag">only counts</span>}</small>
      </div>
      {usage ? (
        <div class="budget-use">
          <p>
            <b>{dollars(usage.spent_usd)}</b> spent{usage.reserved_usd ? `, ${dollars(usage.reserved_usd)} held by requests in progress` : ''}, <b>{dollars(usage.remaining_usd)}</b> left of {dollars(usage.amount_usd)}
            {usage.override && <span class="tag info">override until {moment(usage.override.ends_at)}</span>}
          </p>
          <Meter used={usage.spent_usd} held={usage.reserved_usd ?? 0} forecast={usage.forecast_usd} of={usage.amount_usd} label={`${percent(usage.percent / 100, 0)} used`} />
          <p class="note">
            {percent(usage.percent / 100, 0)} used · its {budget.per ?? 'month'} ends {ago(usage.period_end)}
            {endWords(usage) && <> · <b class="bad">{endWords(usage)}</b></>}
            {usage.forecast_usd != null && <> · {usage.forecast_usd > usage.amount_usd ? <span class="bad">{dollars(usage.forecast_usd)} by then at this rate</span> : `${dollars(usage.forecast_usd)} by then at this rate`}</>}
            {Object.values(budget.scope).includes('each') && !('all' in budget.scope) && ` · ${scopeWords(usage.subject)} is nearest its end`}
          </p>
        </div>
      ) : <p class="note">Nothing is counted yet.</p>}
      <div class="actions">
        <button class="button small" aria-expanded={open} onClick={() => setOpen(!open)}>Of whom</button>
        {may('config:write') && <><button class="button small" onClick={() => act('change')}>Amount …</button><button class="button small" onClick={() => act('override')}>Override …</button><button class="button small danger" onClick={() => act('remove')}>Remove …</button></>}
      </div>
      {open && (
        <div class="budget-subjects">
          <Loaded from={subjects} lines={3}>
            {(page) => (page.data.length ? (
              <ul class="budget-list">
                {page.data.map((each) => <li key={JSON.stringify(each.subject)}><span class="wrap">{scopeWords(each.subject)}</span><span class="n">{dollars(each.spent_usd)} <small>of {dollars(each.amount_usd)}</small></span><Meter used={each.spent_usd} held={each.reserved_usd ?? 0} of={each.amount_usd} label={`${percent(each.percent / 100, 0)} used`} /></li>)}
              </ul>
            ) : <p class="note">Nobody has spent of it in this period.</p>)}
          </Loaded>
        </div>
      )}
    </li>
  );
}

function LimitList({ round, changed }: Changing) {
  const team = scopeTeam(), range = timeRange(), [act, setAct] = useState<{ kind: 'change' | 'remove'; limit: LimitEntry } | null>(null);
  const found = useResource(`limits|${session.value?.id}|${team}|${round}`, (signal) => get('GET /limits', { query: { limit: 200, team }, signal }));
  const refused = useResource(`refused-by|${team}|${range.name ?? range.since + range.until}`, (signal) => ask({ since: range.since, until: range.until, team, outcome: 'refused', group_by: 'rule', order_by: 'refused', limit: 200 }, signal));
  const by = new Map((refused.data?.data ?? []).map((row) => [row.group['rule'] ?? '', row.refused]));
  return (
    <>
      <Loaded from={found}>
        {(page) => {
          const limits = page.data.filter((each) => each.resource !== 'cost_usd');
          if (!limits.length) return <section class="panel"><Empty title="No limit is set"><p>A limit says how many requests or tokens are taken in any second, minute or hour, or at once; what is over it is refused with a true Retry-After.</p></Empty></section>;
          return (
            <section class="panel flush">
              <div class="scroll" tabIndex={0} role="region" aria-label="Limits">
                <table class="rows list cards">
                  <thead><tr><th scope="col">Name</th><th scope="col">At most</th><th scope="col">For</th><th scope="col" class="n">Refused</th><th scope="col">When Redis is away</th><th scope="col"><span class="sr">Acts</span></th></tr></thead>
                  <tbody>
                    {limits.map((each) => (
                      <tr key={each.name}>
                        <th scope="row" class="full">{each.name}{each.dry_run && <span class="tag">only counts</span>}</th>
                        <td>{limitWords(each)}</td>
                        <td>{scopeWords(each.scope)}</td>
                        <td class="n" data-name="refused">{refused.data ? by.has(each.name) ? <a class="link" href={to('/requests', { show: 'refused', rule: each.name })}>{compact(by.get(each.name))}</a> : '0' : '…'}</td>
                        <td class="wide-only">{each.on_outage === 'refuse' ? 'refuses' : 'counts locally'}</td>
                        <td class="n">{may('config:write') && <><button class="button small" onClick={() => setAct({ kind: 'change', limit: each })}>Amount …</button> <button class="button small danger" onClick={() => setAct({ kind: 'remove', limit: each })}>Remove …</button></>}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              <p class="more"><span class="dim">Refusals of the {range.label.toLowerCase()}.</span></p>
            </section>
          );
        }}
      </Loaded>
      {act?.kind === 'change' && <ChangeAmount name={act.limit.name} amount={act.limit.amount} budget={false} close={() => setAct(null)} changed={changed} />}
      {act?.kind === 'remove' && <Remove name={act.limit.name} budget={false} close={() => setAct(null)} changed={changed} />}
    </>
  );
}

function ChangeAmount(props: { name: string; amount: number; budget: boolean; close: () => void; changed: () => void }) {
  const [text, setText] = useState(String(props.amount)), [error, setError] = useState<ApiError | null>(null);
  const path = { name: props.name };
  const run = async () => {
    setError(null);
    try {
      // The state that this changes is the one that was read for it: of two editors the second is told.
      const etag = props.budget ? (await call('GET /budgets/{name}', { path })).etag : (await call('GET /limits/{name}', { path })).etag;
      if (props.budget) await call('PATCH /budgets/{name}', { path, body: { amount: Number(text) }, ifMatch: etag });
      else await call('PATCH /limits/{name}', { path, body: { amount: Number(text) }, ifMatch: etag });
      toast(`${props.name} is now ${text}`);
      props.changed();
    } catch (fault) {
      setError(fault as ApiError);
      throw fault;
    }
  };
  return (
    <Confirm title={`Change ${props.name}`} act="Save" disabled={!(Number(text) > 0)} close={props.close} run={run}>
      <Field name="amount" label={props.budget ? 'Amount, in dollars' : 'Amount'} type="number" value={text} set={setText} required error={error} hint={`It was ${count(props.amount)}. What is spent stays spent.`} />
    </Confirm>
  );
}

function Remove({ name, budget, close, changed }: { name: string; budget: boolean; close: () => void; changed: () => void }) {
  const path = { name };
  const run = async () => {
    if (budget) await call('DELETE /budgets/{name}', { path, ifMatch: (await call('GET /budgets/{name}', { path })).etag });
    else await call('DELETE /limits/{name}', { path, ifMatch: (await call('GET /limits/{name}', { path })).etag });
    toast(`${name} is removed`);
    changed();
  };
  return <Confirm title={`Remove ${name}`} act="Remove" danger type={name} close={close} run={run}><p>Nothing is refused by it any more. The history can bring it back.</p></Confirm>;
}

function OverrideForm({ budget, close, changed }: { budget: BudgetInUse; close: () => void; changed: () => void }) {
  const [amount, setAmount] = useState(String(Math.ceil(budget.amount * 1.25))), [until, setUntil] = useState(new Date(budget.usage?.period_end ?? Date.now() + 86_400_000).toISOString().slice(0, 10)), [reason, setReason] = useState('');
  const subject = budget.usage?.subject ?? {};
  const run = async () => {
    await call('POST /limit-overrides', { body: { limit: budget.name, subject, amount: Number(amount), ends_at: new Date(`${until}T23:59:59`).toISOString(), reason } });
    toast(`${budget.name} has an override`);
    changed();
  };
  return (
    <Confirm title={`Override ${budget.name}`} act="Override" disabled={!(Number(amount) > 0) || !reason.trim()} close={close} run={run}>
      <p>For a while, another amount holds for {scopeWords(subject)}. Then the budget is as before.</p>
      <div class="form"><div class="pair"><Field name="amount" label="Amount, in dollars" type="number" value={amount} set={setAmount} required /><Field name="until" label="Until the end of" type="date" value={until} set={setUntil} required /></div><Field name="reason" label="Why" value={reason} set={setReason} required hint="It is kept with the override." /></div>
    </Confirm>
  );
}

function Overrides({ round, changed }: Changing) {
  const [ending, setEnding] = useState<Override | null>(null);
  const found = useResource(`overrides|${round}`, (signal) => get('GET /limit-overrides', { query: { limit: 100 }, signal }));
  return (
    <>
      <Loaded from={found}>
        {(page) => (page.data.length ? (
          <section class="panel flush">
            <div class="scroll" tabIndex={0} role="region" aria-label="Overrides">
              <table class="rows list cards">
                <thead><tr><th scope="col">Limit</th><th scope="col">For</th><th scope="col" class="n">Amount</th><th scope="col">Until</th><th scope="col">Why</th><th scope="col">By</th><th scope="col"><span class="sr">Acts</span></th></tr></thead>
                <tbody>{page.data.map((each) => <tr key={each.id}><th scope="row">{each.limit}{each.in_force && <span class="tag ok">in force</span>}</th><td>{scopeWords(each.subject)}</td><td class="n" data-name="amount">{count(each.amount)}</td><td><When at={each.ended_at ?? each.ends_at} words={ago(each.ended_at ?? each.ends_at)} /></td><td class="full preview">{each.reason}</td><td>{each.author}</td><td class="n">{each.in_force && may('config:write') && <button class="button small" onClick={() => setEnding(each)}>End …</button>}</td></tr>)}</tbody>
              </table>
            </div>
          </section>
        ) : <section class="panel"><Empty title="No override"><p>An override is another amount of a limit or budget for a while.</p></Empty></section>)}
      </Loaded>
      {ending && <Confirm title={`End the override of ${ending.limit}`} act="End it" close={() => setEnding(null)} run={async () => { await call('DELETE /limit-overrides/{id}', { path: { id: ending.id } }); toast('The override has ended'); changed(); }}><p>The amount of {ending.limit} itself holds again at once.</p></Confirm>}
    </>
  );
}

function Unmatched() {
  const found = useResource('unmatched', (signal) => get('GET /unmatched-limits', { query: { limit: 200 }, signal }));
  return (
    <Loaded from={found}>
      {(page) => (page.data.length ? (
        <section class="panel flush">
          <div class="panel-head"><h2>{plural(page.data.length, 'limit')} that no request has matched</h2><p class="note">known since {moment(page.known_since)}</p></div>
          <div class="scroll" tabIndex={0} role="region" aria-label="Limits that never matched"><table class="rows list cards"><thead><tr><th scope="col">Name</th><th scope="col">Of</th><th scope="col">For</th><th scope="col">Created</th><th scope="col">Last matched</th></tr></thead><tbody>{page.data.map((each) => <tr key={each.name}><th scope="row">{each.name}</th><td>{each.resource}{each.per && ` a ${each.per}`}</td><td>{scopeWords(each.scope)}</td><td>{moment(each.created_at)}</td><td>{ago(each.last_matched_at)}</td></tr>)}</tbody></table></div>
        </section>
      ) : <section class="panel"><Empty title="Every limit has matched a request"><p>So none is spelled wrong, or about something that is gone.</p></Empty></section>)}
    </Loaded>
  );
}
