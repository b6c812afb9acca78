// One curve of a chart, cut from a track.
import type { Points, Track } from './track';

type Column = (number | null)[];
export interface Curve {
  name: string;
  steps: number[];
  values: Column;
  low?: Column;
  high?: Column;
}
export interface Range {
  from: number;
  to: number;
}

export function curveOf(track: Track, key: string, name: string, { from, to }: Range): Curve {
  const { step, values, low, high } = track.points;
  let end = step.length;
  while (end > 0 && step[end - 1]! > to) --end;
  let begin = 0;
  while (begin < end && step[begin]! < from) ++begin;
  const cut = (columns: Points['values']) => columns.get(key)?.slice(begin, end);
  const steps = step.slice(begin, end);
  return { name, steps, values: cut(values) ?? steps.map(() => null), low: cut(low), high: cut(high) };
}

// Where most of a curve lies: a few spikes at the start must not flatten the rest.
export function capOf(values: Column): number | undefined {
  const sorted = values.filter((value): value is number => value !== null).sort((a, b) => a - b);
  if (sorted.length < 20) return undefined;
  const usual = sorted[Math.floor(sorted.length * 0.95)]!;
  const most = sorted.at(-1)!;
  return most > 2 * usual ? usual * 1.5 : undefined;
}
export function highest({
  steps,
  values,
  high = values,
}: Curve): { step: number; value: number } | undefined {
  let best: { step: number; value: number } | undefined;
  high.forEach((value, i) => {
    if (value !== null && (!best || value > best.value)) best = { step: steps[i]!, value };
  });
  return best;
}
// How the curves of several runs are told apart: a colour and a stroke each.
export const kStrokes: { color: string; dash: number[] }[] = [
  { color: 'ink', dash: [] },
  { color: 'parameters', dash: [] },
  { color: 'activations-edge', dash: [2, 3] },
  { color: 'gradients', dash: [10, 3, 2, 3] },
  { color: 'optimizer', dash: [12, 4] },
];
