// A month of a run that fails, as `simulate` with `mtbf` plays it, cut into the days that are drawn.
import type { Row } from '../../parts/timeline';

export interface FailingMonth {
  days: number;
  mtbf_s: number;
  save_every_s: number;
  save_every_steps: number;
  restart_s: number;
  failures: number;
  saves: number;
  goodput: number;
  goodput_by_formula?: number;
  seconds: Record<string, number>; // by phase
  spans: { phase: string; begin_s: number; end_s: number }[];
}
export const kDay = 86_400;
const kLeast = kDay / 1000; // what is shorter is drawn as part of the training around it

export const kPhases: Record<string, { color: string; text: string }> = {
  training: { color: 'parameters', text: 'work that is kept' },
  saves: { color: 'activations', text: 'standing still in saves' },
  'lost work': { color: 'communication', text: 'work that a failure undid' },
  restarts: { color: 'optimizer', text: 'restarts' },
  waiting: { color: 'workspace', text: 'waiting for a spare' },
};
const lookOf = (phase: string) => kPhases[phase] ?? { color: 'workspace', text: phase };

// A row for each day, in hours; at its end the share of it that counts.
export function daysOf({ days, spans }: FailingMonth): Row[] {
  const rows: Row[] = Array.from({ length: Math.ceil(days) }, (_, day) => ({
    name: `day ${day + 1}`,
    marks: [],
  }));
  const kept = rows.map(() => 0);
  for (const { phase, begin_s, end_s } of spans) {
    const shown = phase === 'saves' && end_s - begin_s < kLeast ? 'training' : phase;
    for (let day = Math.floor(begin_s / kDay); day < rows.length && day * kDay < end_s; ++day) {
      const [start, end] = [Math.max(begin_s, day * kDay), Math.min(end_s, (day + 1) * kDay)].map(
        (time) => (time - day * kDay) / 3600,
      ) as [number, number];
      if (phase === 'training') kept[day]! += end - start;
      const { color } = lookOf(shown);
      const last = rows[day]!.marks.at(-1);
      if (last?.color === color && last.end >= start) last.end = end;
      else rows[day]!.marks.push({ start, end, color });
    }
  }
  return rows.map((row, day) => {
    const length = Math.min(1, days - day) * 24;
    return { ...row, note: `${Math.round((100 * kept[day]!) / length)} %` };
  });
}
