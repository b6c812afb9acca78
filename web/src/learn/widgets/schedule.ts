// What the core says about a pipeline schedule, as rows of a timeline, arrows, a table and a trace.
import type { Mark, Row } from '../../parts/timeline';

export const kPasses = [
  'forward',
  'backward',
  'input gradient',
  'weight gradient',
  'forward again',
  'update',
];
const kColors = ['forward', 'backward', 'input-grad', 'weight-grad', 'forward', 'update'];
const kLetters = ['F', 'B', 'I', 'W', 'F', 'U'];
const kForwardAgain = 4;

export type Op = [rank: number, stage: number, microBatch: number, pass: number, start: number, end: number];
export interface RankRow {
  rank: number;
  stages: number[];
  busy: number;
  idle: number;
  peak_live: number;
  live: [time: number, count: number][];
  weight_versions: number;
}
export interface KnownSchedule {
  name: string;
  title: string;
  splits_backward: boolean;
  synchronous: boolean;
  virtual_stages: number; // 0: as many as one likes
}
export interface Schedule {
  schedule: string;
  title: string;
  ranks: number;
  stages: number;
  micro_batches: number;
  makespan: number;
  bubble: number;
  bubble_formula?: { value: number; formula: string; numbers: string };
  ops: Op[];
  needs: [op: number, waitsFor: number][];
  rank_rows: RankRow[];
  versions?: [reads: number, makes: number][][]; // of the weights, by stage and micro-batch
  known: KnownSchedule[];
}

export const isAsynchronous = (of: Schedule) =>
  of.known.some((one) => one.name === of.schedule && !one.synchronous);
// Stages of a rank: with two of them, a micro-batch that is alive weighs half.
export const piecesOf = (of: Schedule) => of.stages / of.ranks;

function markOf(of: Schedule, [, stage, microBatch, pass, start, end]: Op): Mark {
  const piece = piecesOf(of) > 1 ? String.fromCharCode(97 + Math.floor(stage / of.ranks)) : '';
  return {
    start,
    end,
    color: kColors[pass]!,
    text: `${microBatch}${piece}${of.versions ? `·${of.versions[stage]![microBatch]![0]}` : ''}`,
    hatch: pass === kForwardAgain,
  };
}

// Rows of ranks; `index[rank][mark]` is the operation that a mark shows.
export function rowsOf(of: Schedule): { rows: Row[]; index: number[][] } {
  const index: number[][] = of.rank_rows.map(() => []);
  of.ops.forEach((op, i) => index[op[0]]!.push(i));
  const versions = isAsynchronous(of);
  const rows = of.rank_rows.map((row, r) => ({
    name: `rank ${row.rank}`,
    marks: index[r]!.map((i) => markOf(of, of.ops[i]!)),
    note: versions ? `${row.peak_live} · ${row.weight_versions}` : String(row.peak_live),
  }));
  return { rows, index };
}

const shortName = (op: Op) => `${kLetters[op[3]]}${op[2]} of stage ${op[1]}`;
export interface Neighbours {
  before: Op[]; // whose message it waits for
  after: Op[]; // who waits for it
}
export function neighboursOf(of: Schedule, index: number): Neighbours {
  const found: Neighbours = { before: [], after: [] };
  for (const [op, waitsFor] of of.needs) {
    if (op === index) found.before.push(of.ops[waitsFor]!);
    if (waitsFor === index) found.after.push(of.ops[op]!);
  }
  return found;
}
export function arrowsOf(op: Op, { before, after }: Neighbours) {
  const from = (one: Op) => ({ row: one[0], time: one[5] });
  const to = (one: Op) => ({ row: one[0], time: one[4] });
  return [
    ...before.map((one): [ReturnType<typeof from>, ReturnType<typeof to>] => [from(one), to(op)]),
    ...after.map((one): [ReturnType<typeof from>, ReturnType<typeof to>] => [from(op), to(one)]),
  ];
}

export const timeText = (time: number) => String(Number(time.toFixed(2)));

export function describe(of: Schedule, op: Op, { before, after }: Neighbours): string {
  const [rank, stage, microBatch, pass, start, end] = op;
  const parts = [
    `Rank ${rank}: ${kPasses[pass]} of micro-batch ${microBatch} in stage ${stage}, from ${timeText(start)} to ${timeText(end)}.`,
  ];
  const version = of.versions?.[stage]?.[microBatch];
  if (version)
    parts.push(`It reads version ${version[0]} of the weights; its gradient makes version ${version[1]}.`);
  for (const one of before)
    parts.push(`It needs ${shortName(one)}, which rank ${one[0]} ends at ${timeText(one[5])}.`);
  for (const one of after) parts.push(`${shortName(one)} on rank ${one[0]} waits for it.`);
  return parts.join(' ');
}

export function tableOf(of: Schedule) {
  return {
    columns: [
      'rank',
      'stage',
      'micro-batch',
      'pass',
      'start',
      'end',
      ...(of.versions ? ['reads version', 'makes version'] : []),
    ],
    rows: of.ops.map(([rank, stage, microBatch, pass, start, end]) => [
      rank,
      stage,
      microBatch,
      kPasses[pass]!,
      start,
      end,
      ...(of.versions?.[stage]?.[microBatch] ?? []),
    ]),
  };
}

const kMicrosecondsPerUnit = 1000; // a unit of time is drawn as a millisecond

// Chrome's JSON, which ui.perfetto.dev opens: a process per rank, counters for what is alive.
export function traceOf(of: Schedule): string {
  const us = (time: number) => time * kMicrosecondsPerUnit;
  const events: unknown[] = of.rank_rows.flatMap(({ rank }) => [
    { ph: 'M', name: 'process_name', pid: rank, args: { name: `rank ${rank}` } },
    { ph: 'M', name: 'process_sort_index', pid: rank, args: { sort_index: rank } },
    { ph: 'M', name: 'thread_name', pid: rank, tid: 1, args: { name: 'compute' } },
  ]);
  for (const [rank, stage, mb, pass, start, end] of of.ops)
    events.push({
      ph: 'X',
      name: `${kLetters[pass]}${mb}`,
      cat: kPasses[pass],
      pid: rank,
      tid: 1,
      ts: us(start),
      dur: us(end - start),
      args: { mb, stage },
    });
  of.needs.forEach(([op, waitsFor], id) => {
    const [from, to] = [of.ops[waitsFor]!, of.ops[op]!];
    const flow = { id, name: 'p2p', cat: 'flow', tid: 1 };
    events.push({ ...flow, ph: 's', pid: from[0], ts: us(from[5]) - 1 });
    events.push({ ...flow, ph: 'f', bp: 'e', pid: to[0], ts: us(to[4]) });
  });
  for (const { rank, live } of of.rank_rows)
    for (const [time, count] of live)
      events.push({ ph: 'C', name: 'micro-batches alive', pid: rank, ts: us(time), args: { alive: count } });
  const other = { tool: 'tessera', schedule: of.schedule };
  return JSON.stringify({ displayTimeUnit: 'ms', otherData: other, traceEvents: events });
}
