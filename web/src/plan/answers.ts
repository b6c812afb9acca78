// The shapes of the answers that this place reads beside `plan` (docs/api.md).
import type { MemoryBytes, Plan, PlanClass } from '../core/types';
import { withFlags } from './run';
import type { Taken } from './state.svelte';

export interface Word {
  name: string;
  ok: boolean;
  why?: string;
}
export interface Choices {
  model: { layers: number; heads: number; kv_heads: number; experts: number };
  devices: number;
  taken: Taken;
  nearest: Record<string, { said: number | string; use: number | string | boolean; why: string }>;
  refused: Record<string, { value: number; why: string; use: number[] }[]>;
  schedules: Word[];
  recompute: Word[];
  sequence_parallel: Word[];
  [axis: string]: unknown;
}
// What the plan takes for what nobody said: where the run as it is said would not fit, the split that the planner
// chose instead. It says it as flags before a colon.
export function withChosen(choices: Choices | undefined, plan: Plan | undefined): Choices | undefined {
  const said = plan?.guesses.find(({ what }) => what === 'split')?.taken.split(':')[0] ?? '';
  if (!choices || !said.startsWith('--')) return choices;
  return { ...choices, taken: { ...choices.taken, ...withFlags({}, said) } };
}
export const valuesOf = (choices: Choices | undefined, key: string): number[] =>
  (choices?.[key] as number[] | undefined) ?? [];

// Ranks of one place in the pipeline: the heaviest of them is what counts.
export interface StageMemory {
  stage: number;
  layers: number;
  inFlight: number;
  firstRank: number;
  ranks: number;
  bytes: MemoryBytes;
  versions: number;
}
export function stagesOf(plan: Plan): StageMemory[] {
  const byRank = new Map<number, PlanClass[]>();
  for (const one of plan.classes) {
    byRank.set(one.pipeline_rank, [...(byRank.get(one.pipeline_rank) ?? []), one]);
  }
  return [...byRank.entries()]
    .sort(([a], [b]) => a - b)
    .map(([stage, classes]) => {
      const heaviest = classes.reduce((a, b) => (b.memory_bytes.total > a.memory_bytes.total ? b : a));
      return {
        stage,
        layers: (heaviest.stages ?? []).reduce((sum, s) => sum + s.layers, 0),
        inFlight: (heaviest.stages ?? []).reduce((sum, s) => sum + s.in_flight, 0),
        firstRank: heaviest.first_rank,
        ranks: classes.reduce((sum, c) => sum + c.ranks, 0),
        bytes: heaviest.memory_bytes,
        versions: heaviest.weight_versions ?? 1,
      };
    });
}
export const heaviestOf = (stages: StageMemory[]): number =>
  stages.reduce((best, s, i) => (s.bytes.total > stages[best]!.bytes.total ? i : best), 0);

// Where a step goes, in the order in which it is drawn.
export interface StepPart {
  name: string;
  axis?: string;
  color: string;
  seconds: number;
}
export function stepParts(plan: Plan): StepPart[] {
  const time = plan.time;
  if (!time) return [];
  const exposed = Object.entries(time.exposed_s)
    .filter(([, s]) => s > 0)
    .sort((a, b) => b[1] - a[1])
    .map(([axis, s]) => ({ name: 'exposed', axis, color: 'communication', seconds: s }));
  return [
    { name: 'kernels, busiest stage', color: 'kernels', seconds: time.compute_s },
    { name: 'pipeline bubble', color: 'bubble', seconds: time.bubble_s },
    ...exposed,
    { name: 'optimizer', color: 'optimizer', seconds: time.optimizer_s },
  ].filter((part) => part.seconds > 0);
}
