/** Numbers, money, durations and times: one form each, wherever they are shown. Unknown is –, and 0 only what is zero. */
import { signal } from '@preact/signals';

export const UNKNOWN = '–';

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** Whether times are shown in UTC instead of the reader's zone. */
export const inUtc = signal(localStorage.getItem('narthex.utc') === '1');
export const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
export const zone = () => (inUtc.value ? 'UTC' : ownZone);

export function count(value: number | null | undefined): string {
  return value == null ? UNKNOWN : sign(whole.format(value));
}

export function compact(value: number | null | undefined): string {
  return value == null ? UNKNOWN : value < 10_000 && value > -10_000 ? count(value) : sign(short.format(value));
}

/** Millionths of a dollar, as the API counts money. */
export function money(microusd: number | null | undefined): string {
  return microusd == null ? UNKNOWN : dollars(microusd / 1e6);
}

export function dollars(value: number | null | undefined): string {
  if (value == null) return UNKNOWN;
  const amount = Math.abs(value);
  const text = amount === 0 ? '0' : amount < 0.0001 ? amount.toPrecision(1) : amount < 0.1 ? amount.toFixed(4) : amount < 100 ? amount.toFixed(2) : whole.format(amount);
  return (value < 0 ? '−$' : '$') + text;
}

/** Money at a tick: as short as it can be said. */
export function moneyTick(microusd: number): string {
  return microusd >= 1e9 ? `$${short.format(microusd / 1e6)}` : `$${Number((microusd / 1e6).toPrecision(3))}`;
}

export function duration(us: number | null | undefined): string {
  if (us == null) return UNKNOWN;
  if (us === 0) return '0 ms';
  const ms = us / 1000;
  if (ms < 1) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(2)} s`;
  if (s < 60) return `${s.toFixed(1)} s`;
  return span(s);
}

/** A duration at a tick: as short as it can be said. */
export function durationTick(us: number): string {
  if (us === 0) return '0';
  return us < 1e6 ? `${Number((us / 1000).toPrecision(3))} ms` : us < 60e6 ? `${Number((us / 1e6).toPrecision(3))} s` : span(us / 1e6);
}

/** Seconds as a time that people say: 1 m 12 s, 3 h 5 m, 12 days. */
export function span(s: number): string {
  const total = Math.round(s);
  if (total < 60) return `${total} s`;
  if (total < 3600) return `${Math.floor(total / 60)} m ${total % 60} s`;
  if (total < 86_400) return `${Math.floor(total / 3600)} h ${Math.floor((total % 3600) / 60)} m`;
  const days = Math.round(total / 86_400);
  return days === 1 ? '1 day' : `${days} days`;
}

export function share(part: number, of: number, digits = 2): string {
  return of > 0 ? percent(part / of, digits) : UNKNOWN;
}

export function percent(value: number | null | undefined, digits = 1): string {
  if (value == null) return UNKNOWN;
  const hundred = value * 100;
  return sign(`${hundred === 0 || Math.abs(hundred) >= 99.995 ? hundred.toFixed(0) : hundred.toFixed(digits)} %`);
}

/** A change against an earlier value: in per cent for amounts. */
export function change(now: number, before: number): string {
  if (before === 0) return now === 0 ? 'no change' : 'new';
  const relative = (now - before) / before;
  if (Math.abs(relative) > 9.99) return `${relative > 0 ? '×' : '÷'} ${(relative > 0 ? now / before : before / now).toFixed(0)}`;
  return signed(relative * 100, Math.abs(relative) < 0.1 ? 1 : 0) + ' %';
}

/** A change of a share, in points. */
export function points(now: number, before: number): string {
  return `${signed((now - before) * 100, 2)} pt`;
}

export function signed(value: number, digits = 1): string {
  const text = value.toFixed(digits);
  return sign(value > 0 && Number(text) !== 0 ? `+${text}` : Number(text) === 0 ? (0).toFixed(digits) : text);
}

function sign(text: string): string {
  return text.replace('-', '−');
}

const formats = new Map<string, Intl.DateTimeFormat>();
function format(options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = zone() + JSON.stringify(options);
  let found = formats.get(key);
  if (!found) formats.set(key, (found = new Intl.DateTimeFormat('en-GB', { ...options, timeZone: zone() })));
  return found;
}

const DAY: Intl.DateTimeFormatOptions = { day: 'numeric', month: 'short' };
const CLOCK: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit' };

export const day = (at: string | number) => format(DAY).format(new Date(at));
export const clock = (at: string | number) => format(CLOCK).format(new Date(at));
export const dayAndClock = (at: string | number) => `${day(at)} ${clock(at)}`;

/** A moment in lists: the clock with seconds today, the day before that, the year where it is another. */
export function moment(at: string | number | null | undefined): string {
  if (at == null) return UNKNOWN;
  const then = new Date(at), now = new Date();
  const sameDay = format({ ...DAY, year: 'numeric' });
  if (sameDay.format(then) === sameDay.format(now)) return format({ ...CLOCK, second: '2-digit' }).format(then);
  if (then.getUTCFullYear() === now.getUTCFullYear()) return `${day(at)} ${clock(at)}`;
  return sameDay.format(then);
}

export function ago(at: string | null | undefined): string {
  if (at == null) return 'never';
  const s = (Date.now() - new Date(at).getTime()) / 1000;
  if (s < 0) return `in ${span(-s)}`;
  if (s < 45) return 'just now';
  return s < 3600 ? `${Math.round(s / 60)} min ago` : s < 86_400 ? `${Math.round(s / 3600)} h ago` : `${span(s)} ago`;
}

export const plural = (n: number, one: string, many = one + 's') => `${count(n)} ${n === 1 ? one : many}`;
export const shortId = (id: string) => (id.length > 20 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id);
