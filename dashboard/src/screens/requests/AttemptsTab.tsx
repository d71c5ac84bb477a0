/** The attempts as a waterfall, and each with what its host said. */
import { Waterfall } from '../../charts/Waterfall';
import type { Step } from '../../charts/Waterfall';
import { count, duration, money } from '../../format';
import type { InferenceWithContent } from '../../generated/api';
import { Text } from '../../parts/Text';
import { attemptsOf } from './record';
import type { AttemptRecord } from './record';

export function AttemptsTab({ row }: { row: InferenceWithContent }) {
  const attempts = attemptsOf(row);
  if (!attempts.length) return <p class="note">It went to no host.</p>;
  return (
    <div class="rows-of">
      <div>
        <h3>What happened in {duration(row.duration_us)}</h3>
        <Waterfall steps={steps(row, attempts)} total={row.duration_us} />
      </div>
      {attempts.map((each, index) => (
        <div key={index}>
          <h3>{index + 1} · {each.provider}/{each.model}</h3>
          <dl class="facts">
            {each.endpoint && <><dt>Endpoint</dt><dd class="mono">{each.endpoint}</dd></>}
            <dt>Result</dt><dd class={each.error ? 'bad' : ''}>{each.error ?? 'served'}{each.status !== null && `, status ${each.status}`}{each.code && `, code ${each.code}`}</dd>
            {each.message && <><dt>Its message</dt><dd><Text text={each.message} /></dd></>}
            {each.resumedAt !== null && <><dt>Went on</dt><dd>with the stream before, after {count(each.resumedAt)} characters</dd></>}
            <dt>Charged</dt><dd>{money(each.cost)} for {count(each.inputTokens)} + {count(each.outputTokens)} tokens</dd>
            {each.requestId && <><dt>Host's id</dt><dd class="mono">{each.requestId}</dd></>}
          </dl>
          {each.candidates.length > 0 && <Candidates attempt={each} />}
        </div>
      ))}
    </div>
  );
}

function steps(row: InferenceWithContent, attempts: AttemptRecord[]): Step[] {
  const found: Step[] = attempts.map((each, index) => {
    const serves = each.error === null, start = each.startedUs ?? 0;
    const length = serves ? Math.max(row.duration_us - start, each.durationUs ?? 0) : (each.durationUs ?? 0);
    return { name: `${index + 1} · ${each.provider}/${each.model}`, detail: `${duration(Math.min(length, row.duration_us))} · ${each.error ?? each.status ?? 'served'}`, start, length: Math.min(length, row.duration_us - start), colour: serves ? 'c1' : 'c5' };
  });
  const beginning = attempts[0]?.startedUs ?? null;
  if (beginning !== null && beginning > 0) found.unshift({ name: 'Key, limits, plan', detail: duration(beginning), start: 0, length: beginning, colour: 'c6' });
  if (row.first_token_us !== null) found.push({ name: 'Until the first token', detail: `after ${duration(row.first_token_us)}`, start: 0, length: row.first_token_us, colour: 'c3' });
  return found;
}

function Candidates({ attempt }: { attempt: AttemptRecord }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Endpoints that could have served">
      <table>
        <thead><tr><th scope="col">Endpoint</th><th scope="col" class="n">Score</th><th scope="col" class="n">Cached</th><th scope="col" class="n">Load</th><th scope="col">Away</th></tr></thead>
        <tbody>{attempt.candidates.map((each) => <tr key={each.endpoint}><th scope="row" class="mono">{each.endpoint}</th><td class="n">{count(each.score)}</td><td class="n">{count(each.cachedTokens)}</td><td class="n">{count(each.loadTokens)}</td><td>{each.unavailable ?? ''}</td></tr>)}</tbody>
      </table>
    </div>
  );
}
