// A collective that the core played: its steps with the values that moved.
export interface Cell {
  v: number | null; // null: nothing is there
  from: number[]; // ranks in the sum
}
export type State = Cell[][]; // by rank, by chunk

export interface Move {
  from: number;
  to: number;
  chunk: number; // where it was
  at: number; // where it arrives
  reduce: boolean;
  value: number;
}
export interface Step {
  phase: string;
  text: string;
  moves: Move[];
  state: State;
}
export interface Played {
  op: string;
  algorithm: string;
  ranks: number;
  chunks: number;
  algorithms: string[];
  digits: boolean;
  before: State;
  steps: Step[];
  after: State;
  expected: State;
  equal: boolean;
  sent_chunks: number[];
  sent_formula: { formula: string; numbers: string; value: number };
  messages: number;
  hang?: { step: number; waits: { rank: number; for: number; step?: number }[]; text: string };
}

export const kOps = [
  'broadcast',
  'scatter',
  'gather',
  'reduce',
  'all_gather',
  'reduce_scatter',
  'all_reduce',
  'all_to_all',
] as const;
export type Op = (typeof kOps)[number];
export const spoken = (name: string) => name.replaceAll('_', '-');

// What is there after `done` steps.
export const stateAfter = (played: Played, done: number): State =>
  played.steps[done - 1]?.state ?? played.before;

// The place of a step in its phase: "Reduce-scatter, step 2 of 3."
export function placeOf(played: Played, done: number): string {
  const now = played.steps[done - 1];
  if (!now) return 'Before the first step.';
  const first = played.steps.findIndex((step) => step.phase === now.phase);
  const length = played.steps.filter((step) => step.phase === now.phase).length;
  const phase = spoken(now.phase);
  return `${phase[0]!.toUpperCase()}${phase.slice(1)}, step ${done - first} of ${length}.`;
}

// How many steps the first phase has, where there is a second.
export function firstPhase(played: Played): number | undefined {
  const end = played.steps.findIndex((step) => step.phase !== played.steps[0]!.phase);
  return end < 0 ? undefined : end;
}

// A step in a sentence: what a rank sends and gets.
export function trafficOf(step: Step | undefined, ranks: number): string {
  if (!step || step.moves.length === 0) return '';
  const counted = (of: (move: Move) => number) => {
    const counts = new Array<number>(ranks).fill(0);
    for (const move of step.moves) ++counts[of(move)]!;
    return counts;
  };
  const [sent, got] = [counted((move) => move.from), counted((move) => move.to)];
  const all = (counts: number[]) => counts.every((n) => n === counts[0]);
  const chunks = (n: number) => (n === 1 ? 'one chunk' : `${n} chunks`);
  if (all(sent) && all(got)) return `Every rank sends ${chunks(sent[0]!)} and gets ${chunks(got[0]!)}.`;
  const most = got.indexOf(Math.max(...got));
  const from = sent.indexOf(Math.max(...sent));
  const idle = sent.filter((n, rank) => n === 0 && got[rank] === 0).length;
  const rest = idle > 0 ? ` ${idle === 1 ? 'One rank does' : `${idle} ranks do`} nothing.` : '';
  return got[most]! >= sent[from]!
    ? `Rank ${most} gets ${chunks(got[most]!)}.${rest}`
    : `Rank ${from} sends ${chunks(sent[from]!)}.${rest}`;
}

// Who is in a sum, from a cell that shows it: "2,202 has ranks 0, 1 and 3, and lacks rank 2."
export function exampleOf(state: State): string {
  const ranks = state.length;
  const cell = state
    .flat()
    .filter((one) => one.from.length < ranks)
    .sort((a, b) => b.from.length - a.from.length)[0];
  if (!cell || cell.v === null || cell.from.length < 2) return '';
  const list = (of: number[]) =>
    of.length > 1 ? `ranks ${of.slice(0, -1).join(', ')} and ${of.at(-1)}` : `rank ${of[0]}`;
  const lacks = Array.from({ length: ranks }, (_, rank) => rank).filter((rank) => !cell.from.includes(rank));
  return `${cell.v.toLocaleString('en-US')} has ${list([...cell.from].sort((a, b) => a - b))}, and lacks ${list(lacks)}.`;
}
