/** An installation that nothing has come to yet: what to do first, with commands that work here. */
import { Snippet } from '../../parts/Snippet';
import { to } from '../../router';
import { may, mayAnywhere } from '../../session';

export function FirstSteps() {
  const example = `curl ${location.origin}/v1/chat/completions \\\n  -H "Authorization: Bearer $NARTHEX_KEY" \\\n  -H "Content-Type: application/json" \\\n  -d '{"model": "sandbox", "messages": [{"role": "user", "content": "Hello!"}]}'`;
  return (
    <section class="panel">
      <div class="state">
        <h2>No request has come yet</h2>
        <p>Give a team a key, then send a request with it. It shows here within some seconds.</p>
        <Snippet text={example} what="The command" />
        <div class="actions">
          {mayAnywhere('keys:write') && <a class="button primary" href={to('/teams', { new: 'key' })}>Create a key</a>}
          {may('config:read') && <a class="button" href={to('/models')}>See the models</a>}
        </div>
      </div>
    </section>
  );
}
