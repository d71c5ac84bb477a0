/** An installation that nothing has come to yet: four steps, those that are done already marked, with commands that work here. */
import { get } from '../../api';
import { plural } from '../../format';
import { Snippet } from '../../parts/Snippet';
import { useResource } from '../../resource';
import { to } from '../../router';
import { may, mayAnywhere } from '../../session';

const SANDBOX = 'sandbox';

export function FirstSteps() {
  const found = useResource('first-steps', async (signal) => {
    const query = { limit: 50 };
    const [providers, models, keys] = await Promise.all([may('config:read') ? get('GET /providers', { query, signal }) : null, may('config:read') ? get('GET /models', { query, signal }) : null, mayAnywhere('keys:read') ? get('GET /keys', { query: { ...query, state: 'valid' }, signal }) : null]);
    const own = (providers?.data ?? []).filter((each) => each.adapter !== SANDBOX), names = new Set(own.map((each) => each.name));
    const served = (models?.data ?? []).filter((each) => (each.targets ?? []).some((target) => names.has(target.provider)));
    return { providers: own.map((each) => each.name), models: served.map((each) => each.name), sandbox: models?.data.find((each) => each.name === SANDBOX)?.name ?? null, keys: (keys?.data ?? []).filter((each) => !each.admin).length };
  });
  const { providers = [], models = [], sandbox = null, keys = 0 } = found.data ?? {}, model = models[0] ?? sandbox ?? 'MODEL';
  const example = `curl ${location.origin}/v1/chat/completions \\\n  -H "Authorization: Bearer $NARTHEX_KEY" \\\n  -H "Content-Type: application/json" \\\n  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Hello!"}]}'`;
  const change = may('config:write');
  return (
    <section class="panel" aria-label="First steps">
      <div class="state">
        <h2>No request has come yet</h2>
        <p>{sandbox && !providers.length ? `The model ${sandbox} answers at once with random text: you can begin with the third step, and connect a real model later.` : 'Four steps lead to the first one. It shows here within some seconds.'}</p>
        <ol class="steps">
          <Step done={providers.length > 0} title="Connect a provider" text={providers.length ? `${plural(providers.length, 'provider')}: ${providers.slice(0, 3).join(', ')}` : 'A host with an account, or an engine on your own machines'} act={change && to('/models', { tab: 'providers', new: 1 })} name="New provider" />
          <Step done={models.length > 0} title="Name a model" text={models.length ? `Callers may use ${models.slice(0, 3).join(', ')}` : 'The name that callers use, and what serves it'} act={change && to('/models', { new: 1 })} name="New model" />
          <Step done={keys > 0} title="Give a team a key" text={keys ? `${plural(keys, 'key')} can be used` : 'Its requests, limits and costs are counted by it'} act={mayAnywhere('keys:write') && to('/teams', { new: 'key' })} name="New key" primary />
          <li>
            <div><b>Send a request</b><small>With the key as <code>NARTHEX_KEY</code>, from anywhere that reaches this address</small></div>
            <div class="snippet"><Snippet text={example} what="The command" /></div>
          </li>
        </ol>
      </div>
    </section>
  );
}

function Step({ done, title, text, act, name, primary = false }: { done: boolean; title: string; text: string; act: string | false; name: string; primary?: boolean }) {
  return (
    <li class={done ? 'done' : ''}>
      <div><b>{title}{done && <span class="sr">, done</span>}</b><small>{text}</small></div>
      {act && <a class={`button${primary && !done ? ' primary' : ''}`} href={act}>{name}</a>}
    </li>
  );
}
