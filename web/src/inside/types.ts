// Answers of `program` and `timeline` (docs/api.md).
import type { MemoryBytes, Part } from '../core/types';

export interface Instruction {
  i: number;
  stream: string;
  micro_batch: number;
  pass: string;
  op: string;
  text: string;
  start: number;
  end: number;
  reads: number[];
  writes: number[];
  bytes_sent?: number;
  group?: string;
}
export interface Buffer {
  id: number;
  name: string;
  arena: string;
  offset: number;
  bytes: number;
  dtype: string;
  shape: number[];
  part: Part;
  first: number;
  last: number;
  start: number;
  end: number;
}
export interface Arena {
  name: string;
  bytes: number;
  fullest_bytes: number;
  fullest_at: number;
  fullest_s: number;
}
export interface Program {
  rank: number;
  world: number;
  coords: Record<string, number>;
  mesh: Record<string, number>;
  digest: string;
  step_s: number;
  streams: string[];
  instructions: Instruction[];
  buffers: Buffer[];
  arenas: Arena[];
  memory_bytes: MemoryBytes;
}

export type TimelineMark = [start: number, end: number, pass: number, label: number];
export interface TimelineClass {
  rank: number;
  ranks: number;
  coords: Record<string, number>;
  members?: [first: number, last: number][];
  label: string;
  compute_s: number;
  rows: { stream: string; marks: TimelineMark[] }[];
  memory?: [number, number][];
  idle_s: number;
  memory_bytes?: number;
  fullest_bytes?: number;
  fullest_s?: number;
}
export interface TimelineAnswer {
  world: number;
  mesh: Record<string, number>;
  step_s: number;
  end_s: number;
  simulated_by: string;
  simulated_ranks?: number;
  step_without_slow_ranks_s?: number;
  passes: string[];
  labels: string[];
  classes: TimelineClass[];
  cluster?: { name: string };
  stuck?: { rank: number; since_s: number; waits_for: string }[];
  lost?: { rank: number; at_s: number };
}
