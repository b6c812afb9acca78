import { describe as suite, expect, it } from 'vitest';
import { arrowsOf, describe, neighboursOf, rowsOf, tableOf, traceOf, type Schedule } from './schedule';

// Two ranks, one micro-batch: F0 F1 B1 B0.
const kSmall: Schedule = {
  schedule: 'gpipe',
  title: 'gpipe: 2 ranks',
  ranks: 2,
  stages: 2,
  micro_batches: 1,
  makespan: 6,
  bubble: 0.5,
  ops: [
    [0, 0, 0, 0, 0, 1],
    [0, 0, 0, 1, 4, 6],
    [1, 1, 0, 0, 1, 2],
    [1, 1, 0, 1, 2, 4],
  ],
  needs: [
    [1, 3],
    [2, 0],
  ],
  rank_rows: [0, 1].map((rank) => ({
    rank,
    stages: [rank],
    busy: 3,
    idle: 3,
    peak_live: 1,
    live: [
      [0, 0],
      [rank, 1],
      [6, 0],
    ],
    weight_versions: 2 - rank,
  })),
  known: [
    { name: 'gpipe', title: 'GPipe', splits_backward: false, synchronous: true, virtual_stages: 1 },
    { name: 'pipedream', title: 'PipeDream', splits_backward: false, synchronous: false, virtual_stages: 1 },
  ],
};

suite('rowsOf', () => {
  it('has a row for each rank, its marks in order, and what is alive at its end', () => {
    const { rows, index } = rowsOf(kSmall);
    expect(rows.map((row) => row.name)).toEqual(['rank 0', 'rank 1']);
    expect(rows[1]!.marks.map((mark) => [mark.color, mark.start, mark.end])).toEqual([
      ['forward', 1, 2],
      ['backward', 2, 4],
    ]);
    expect(index).toEqual([
      [0, 1],
      [2, 3],
    ]);
    expect(rows[0]!.note).toBe('1');
  });
  it('counts versions of the weights where a schedule is asynchronous', () => {
    expect(rowsOf({ ...kSmall, schedule: 'pipedream' }).rows.map((row) => row.note)).toEqual([
      '1 · 2',
      '1 · 1',
    ]);
  });
  it('says which version of the weights an operation reads, where the core says it', () => {
    const of: Schedule = { ...kSmall, schedule: 'pipedream', versions: [[[7, 9]], [[8, 9]]] };
    expect(rowsOf(of).rows.map((row) => row.marks[0]!.text)).toEqual(['0·7', '0·8']);
    expect(describe(of, of.ops[2]!, neighboursOf(of, 2))).toContain(
      'It reads version 8 of the weights; its gradient makes version 9.',
    );
    expect(tableOf(of).rows[0]!.slice(-2)).toEqual([7, 9]);
  });
  it('says which piece of the model a mark is, where a rank has several', () => {
    const ops = kSmall.ops.map((op) => [...op] as (typeof kSmall.ops)[number]);
    ops[1]![1] = 3;
    const { rows } = rowsOf({ ...kSmall, stages: 4, ops });
    expect(rows[0]!.marks.map((mark) => mark.text)).toEqual(['0a', '0b']);
  });
});

suite('a selected operation', () => {
  it('is joined to what it waits for and to who waits for it', () => {
    const neighbours = neighboursOf(kSmall, 3);
    expect(neighbours.before).toEqual([]);
    expect(neighbours.after).toEqual([kSmall.ops[1]]);
    expect(arrowsOf(kSmall.ops[3]!, neighbours)).toEqual([
      [
        { row: 1, time: 4 },
        { row: 0, time: 4 },
      ],
    ]);
    expect(describe(kSmall, kSmall.ops[1]!, neighboursOf(kSmall, 1))).toContain('rank 1 ends at 4');
  });
});

suite('what a reader takes home', () => {
  it('is a table of all operations', () => {
    expect(tableOf(kSmall).rows[1]).toEqual([0, 0, 0, 'backward', 4, 6]);
  });
  it('is a trace with a process per rank, slices, messages and counters', () => {
    const { traceEvents } = JSON.parse(traceOf(kSmall)) as {
      traceEvents: { ph: string; pid: number; ts?: number; dur?: number }[];
    };
    const of = (ph: string) => traceEvents.filter((event) => event.ph === ph);
    expect(of('X').map((event) => [event.pid, event.ts, event.dur])).toEqual([
      [0, 0, 1000],
      [0, 4000, 2000],
      [1, 1000, 1000],
      [1, 2000, 2000],
    ]);
    expect(of('s')).toHaveLength(2);
    expect(of('f')).toHaveLength(2);
    expect(of('C')).toHaveLength(6);
  });
});
