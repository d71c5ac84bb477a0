/** The menu, and the bar with what every view shares: search, team, time, zone, theme. */
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { get } from './api';
import { inUtc, ownZone } from './format';
import { helpShown } from './help';
import { paletteShown } from './palette';
import { Icon, Mark } from './parts/Icon';
import { copy, toast } from './parts/Toast';
import { useResource } from './resource';
import { go, here, place, to } from './router';
import { DAYS, RANGES, timeRange } from './scope';
import { useKeys } from './keys';
import { isCaller, mayAnywhere, ownTeams, session, signOut } from './session';
import { switchTheme } from './theme';
import { GROUPS, isWithin, VIEWS } from './views';

const menuOpen = signal(false);

export function Menu() {
  const path = place.value.path, current = session.value!;
  useEffect(() => { menuOpen.value = false; }, [place.value]);
  const roles = current.roles.map((each) => (each.team ? `${each.role} in ${each.team}` : each.role)).join(', ');
  return (
    <nav id="menu" class={`menu${menuOpen.value ? ' open' : ''}`} aria-label="Main">
      <a class="brand" href={to('/')}><Mark />Narthex</a>
      {GROUPS.map((group) => {
        const views = group.views.filter((view) => view.seen());
        return (
          views.length > 0 && (
            <section key={group.name}>
              <h2>{group.name}</h2>
              <ul>
                {views.map((view) => (
                  <li key={view.path}><a href={to(view.path)} aria-current={isWithin(path, view) ? 'page' : undefined}><Icon name={view.icon} />{view.name}</a></li>
                ))}
              </ul>
            </section>
          )
        );
      })}
      <div class="who">
        <span>{current.name}</span>
        <span class="dim">{isCaller() ? 'key' : current.kind === 'key' ? 'admin key' : current.kind === 'user' ? 'signed in' : 'service account'}{roles && ` · ${roles}`}</span>
        <a class="link" href="/docs" target="_blank" rel="noreferrer">API reference</a>
        <button onClick={() => signOut().catch((fault: Error) => toast(fault.message))}>Sign out</button>
      </div>
    </nav>
  );
}

export function Top() {
  const going = useRef(0);
  useKeys((key) => {
    const now = Date.now();
    if (now - going.current < 1500) {
      going.current = 0;
      const view = VIEWS.find((each) => each.key === key.toLowerCase() && each.seen());
      if (view) go(to(view.path));
      return view !== undefined;
    }
    if (key === 'g') going.current = now;
    else if (key === '?') helpShown.value = true;
    else if (key === '/') {
      const filter = document.getElementById('add-filter');
      if (filter) filter.click();
      else paletteShown.value = true;
      return true;
    } else if (key === 'y') void copyLink();
    else if (key === 'Escape' && menuOpen.value) menuOpen.value = false;
    return false;
  });
  return (
    <header class="top">
      <button class="only-narrow icon-button" aria-label="Menu" aria-expanded={menuOpen.value} aria-controls="menu" onClick={() => (menuOpen.value = !menuOpen.value)}><Icon name="menu" /></button>
      <button class="search" onClick={() => (paletteShown.value = true)} aria-haspopup="dialog">
        <Icon name="search" />
        <span>Find a request, key, model, team …</span>
        <kbd>Ctrl K</kbd>
      </button>
      <div class="scope">{!isCaller() && <TeamChoice />}<RangeChoice /></div>
      <button class="icon-button" title={inUtc.value ? `Times are in UTC: show ${ownZone}` : `Times are in ${ownZone}: show UTC`} onClick={switchZone}><span class="sr">Switch the time zone, now </span>{inUtc.value ? 'UTC' : <ZoneMark />}</button>
      <button class="icon-button" aria-label="Switch between light and dark" onClick={switchTheme}><Icon name="theme" /></button>
    </header>
  );
}

function ZoneMark() {
  return <><svg class="icon" viewBox="0 0 20 20" aria-hidden="true"><path d="M10 3a7 7 0 100 14 7 7 0 000-14M10 6v4l3 2" /></svg><span class="sr">local</span></>;
}

function switchZone() {
  inUtc.value = !inUtc.value;
  localStorage.setItem('narthex.utc', inUtc.value ? '1' : '0');
  toast(inUtc.value ? 'Times are now in UTC' : `Times are now in your zone, ${ownZone}`);
}

/** A link that shows the same rows later, too: with points in time instead of "last 7 days". */
function copyLink() {
  const range = timeRange();
  const address = new URL(here({ range: null, since: range.since, until: range.until }), location.origin);
  return copy(address.href, 'A link to this view, with its time,');
}

function TeamChoice() {
  const own = ownTeams();
  const teams = useResource(mayAnywhere('teams:read') ? 'teams-of-scope' : null, async (signal) => (await get('GET /teams', { query: { limit: 200, sort: 'name' }, signal })).data.map((each) => each.name));
  const current = place.value.query.get('team') ?? '';
  const names = own ?? teams.data ?? [];
  const shown = current && !names.includes(current) ? [current, ...names] : names;
  return (
    <label>
      <span class="sr">Team</span>
      <select value={current} onChange={(event) => go(here({ team: event.currentTarget.value || null, id: null }))}>
        <option value="">{own ? 'My teams' : 'All teams'}</option>
        {shown.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
    </label>
  );
}

function RangeChoice() {
  const range = timeRange();
  return (
    <label>
      <span class="sr">Time</span>
      <select value={range.name ?? ''} onChange={(event) => go(here({ range: event.currentTarget.value, since: null, until: null }))}>
        {range.name === null && <option value="">{range.label}</option>}
        {[...RANGES.slice(0, 2), ...DAYS, ...RANGES.slice(2)].map(([name, text]) => <option key={name} value={name}>{text}</option>)}
      </select>
    </label>
  );
}
