/** The views: their addresses, who sees them in the menu, and the keys that lead there. */
import type { IconName } from './parts/Icon';
import { isCaller, may, mayAnywhere, session } from './session';

export interface View {
  path: string;
  name: string;
  icon: IconName;
  /** Pressed after G. */
  key: string;
  seen: () => boolean;
}

export const GROUPS: { name: string; views: View[] }[] = [
  { name: 'Mine', views: [{ path: '/me', name: 'My key', icon: 'me', key: 'k', seen: isCaller }] },
  {
    name: 'Observe',
    views: [
      { path: '/', name: 'Overview', icon: 'overview', key: 'o', seen: () => mayAnywhere('records:read') },
      { path: '/requests', name: 'Requests', icon: 'requests', key: 'r', seen: () => mayAnywhere('records:read') },
      { path: '/conversations', name: 'Conversations', icon: 'conversations', key: 'c', seen: () => mayAnywhere('records:read') },
      { path: '/feedback', name: 'Feedback', icon: 'feedback', key: 'b', seen: () => mayAnywhere('records:read') },
    ],
  },
  {
    name: 'Improve',
    views: [
      { path: '/experiments', name: 'Experiments', icon: 'experiments', key: 'e', seen: () => may('config:read') },
      { path: '/functions', name: 'Functions', icon: 'functions', key: 'n', seen: () => may('config:read') },
      { path: '/playground', name: 'Playground', icon: 'playground', key: 'p', seen: () => session.value?.kind === 'key' || isCaller() || mayAnywhere('keys:write') },
      { path: '/datasets', name: 'Datasets', icon: 'datasets', key: 'd', seen: () => mayAnywhere('records:read') },
      { path: '/replays', name: 'Replays', icon: 'replays', key: 'v', seen: () => mayAnywhere('records:read') },
    ],
  },
  {
    name: 'Govern',
    views: [
      { path: '/teams', name: 'Teams and keys', icon: 'teams', key: 't', seen: () => mayAnywhere('keys:read') },
      { path: '/limits', name: 'Limits and budgets', icon: 'limits', key: 'l', seen: () => may('config:read') },
      { path: '/cost', name: 'Cost', icon: 'cost', key: 's', seen: () => mayAnywhere('records:read') },
    ],
  },
  {
    name: 'Operate',
    views: [
      { path: '/fleet', name: 'Fleet', icon: 'fleet', key: 'f', seen: () => may('config:read') },
      { path: '/models', name: 'Models and prices', icon: 'models', key: 'm', seen: () => may('config:read') },
      { path: '/audit', name: 'Audit and history', icon: 'audit', key: 'a', seen: () => mayAnywhere('audit:read') || may('config:read') },
      { path: '/settings', name: 'Settings and doctor', icon: 'settings', key: 'i', seen: () => may('config:read') },
    ],
  },
];

export const VIEWS = GROUPS.flatMap((group) => group.views);

/** Whoever has a view of their own begins with it. */
export const isWithin = (path: string, view: View) => (view.path === '/me' && path === '/') || (view.path === '/' ? path === '/' : path === view.path || path.startsWith(view.path + '/'));
