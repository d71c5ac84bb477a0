/** The names that fields may mean: of providers, models and stored credentials. */
import { get } from '../api';
import { useResource } from '../resource';
import { may } from '../session';
import type { SectionName } from './sections';

export function useNames(section: SectionName | 'replays'): Record<string, string[]> {
  const found = useResource(may('config:read') ? 'names-of-forms' : null, async (signal) => {
    const query = { limit: 200 };
    const [providers, models, functions] = await Promise.all([get('GET /providers', { query, signal }), get('GET /models', { query, signal }), get('GET /functions', { query, signal })]);
    return { providers: providers.data.map((each) => each.name), models: models.data.map((each) => each.name), functions: functions.data.map((each) => each.name) };
  });
  const { providers = [], models = [], functions = [] } = found.data ?? {};
  const providerModels: Record<string, string[]> = section === 'prices' ? { provider: providers } : {};
  return { 'targets.provider': providers, 'shadow.model': models, model: section === 'functions' ? models : section === 'replays' ? [...models, ...functions] : [], 'judge.function': functions, ...providerModels };
}
