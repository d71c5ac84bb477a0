/** Scales, ticks and the width of what a chart is drawn in. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { clock, day } from '../format';

export type Scale = (value: number) => number;

export function scale(from: number, to: number, low: number, high: number): Scale {
  const width = to - from || 1;
  return (value) => low + ((value - from) / width) * (high - low);
}

/** Round values between two, about `wanted` of them. */
export function ticks(low: number, high: number, wanted: number): number[] {
  const raw = (high - low) / wanted || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((each) => each * power >= raw * 0.999) ?? 10) * power;
  const found: number[] = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-6; value += step) found.push(Number(value.toPrecision(10)));
  return found;
}

/** Points in time that are worth a label, with the label: midnights over days, full hours within one. */
export function timeTicks(since: number, until: number, width: number): { at: number; text: string }[] {
  const hours = (until - since) / 3.6e6, most = Math.max(2, Math.floor(width / 74));
  const steps = hours <= 3 ? [5, 10, 15, 30, 60] : hours <= 72 ? [60, 120, 180, 360, 720, 1440] : [1440, 2880, 4320, 7200, 10_080, 20_160, 43_200];
  const minutes = steps.find((each) => (hours * 60) / each <= most) ?? steps.at(-1)!;
  const found: { at: number; text: string }[] = [];
  const first = new Date(since);
  if (minutes >= 1440) first.setHours(0, 0, 0, 0);
  else first.setMinutes(0, 0, 0);
  for (let at = first.getTime(); at <= until; at += minutes * 60_000) if (at >= since) found.push({ at, text: minutes >= 1440 ? day(at) : clock(at) });
  return found;
}

/** The width of the element with this ref, as it changes. */
export function useWidth(): [{ current: HTMLDivElement | null }, number] {
  const ref = useRef<HTMLDivElement>(null), [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    setWidth(element.clientWidth);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}
