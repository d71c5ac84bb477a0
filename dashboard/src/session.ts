/** Who is signed in, and what they may do. The server decides; the page only leaves out what it would refuse. */
import { signal } from '@preact/signals';
import { ApiError, call, get, send, signIns, signedOut } from './api';
import type { CurrentSession } from './generated/api';
import { forgetAll } from './resource';

export type Permission = CurrentSession['permissions'][number];

export const session = signal<CurrentSession | null>(null);
export const sessionError = signal<ApiError | null>(null);

export interface Ways {
  issuer: boolean;
  key: string | null;
}

export async function loadSession(): Promise<void> {
  try {
    session.value = await get('GET /session');
    sessionError.value = null;
    signedOut.value = false;
  } catch (fault) {
    if (fault instanceof ApiError && fault.status !== 401) sessionError.value = fault;
  }
}

export async function signInWays(): Promise<Ways> {
  return (await send('/admin/v1/sign-in/ways', { credentials: 'same-origin' })).json();
}

export async function signIn(way: 'key' | 'once', body: { key: string } | { code: string }): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  await send(`/admin/v1/sign-in/${way}`, { method: 'POST', headers, body: JSON.stringify(body), credentials: 'same-origin' });
  const before = session.value?.id;
  await loadSession();
  if (before !== undefined && session.value?.id !== before) forgetAll();
  signIns.value++;
}

export async function signOut(): Promise<void> {
  await call('POST /sign-out');
  forgetAll();
  session.value = null;
  signedOut.value = true;
}

/** Whether the session permits something: for the company, or within a team. */
export function may(permission: Permission, team?: string | null): boolean {
  const current = session.value;
  if (!current) return false;
  if (current.permissions.includes(permission)) return true;
  return team != null && (current.team_permissions[team] ?? []).includes(permission);
}

export function mayAnywhere(permission: Permission): boolean {
  return may(permission) || Object.values(session.value?.team_permissions ?? {}).some((each) => each.includes(permission));
}

/** Whether a key that is no admin key signed in: it sees what is its own. */
export const isCaller = () => session.value?.kind === 'caller';

/** The teams of somebody who has no role for the whole company; null: every team. */
export function ownTeams(): string[] | null {
  const current = session.value;
  return !current || current.permissions.length > 0 ? null : Object.keys(current.team_permissions);
}
