import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { useCore, type Core, type Request } from '../core/core';
import { url } from '../state/url.svelte';
import AllRanks from './AllRanks.svelte';
import MapTab from './MapTab.svelte';
import { classOf, legendOf, nameOf, rowsOf } from './marks';
import PlacementsTab from './PlacementsTab.svelte';
import { insideRun, kDemo } from './run.svelte';
import ScheduleTab from './ScheduleTab.svelte';
import type { TimelineAnswer } from './types';

const kPatience = { timeout: 10_000 };

// Two stages of two ranks; numbers are the stub's own, and the page must follow them.
const timeline = (step_s: number): TimelineAnswer => ({
  world: 4,
  mesh: { pp: 2, tp: 2 },
  step_s,
  end_s: step_s,
  simulated_by: 'instructions',
  simulated_ranks: 2,
  passes: ['forward', 'backward', 'exposed'],
  labels: ['F0', 'B0', 'wait'],
  classes: [0, 1].map((stage) => ({
    rank: 2 * stage,
    ranks: 2,
    members: [[2 * stage, 2 * stage + 1]] as [number, number][],
    coords: { pp: stage, tp: 0 },
    label: `ranks of stage ${stage}`,
    compute_s: 1,
    idle_s: step_s / 4,
    rows: [
      {
        stream: 'compute',
        marks: [
          [0, step_s / 4, 0, 0],
          [step_s / 2, step_s, 1, 1],
        ],
      },
    ],
  })),
});

class StubCore implements Core {
  asked: [string, Request][] = [];
  step_s = 2;

  async ask<T>(method: string, request: Request): Promise<T> {
    return this.answer(method, request) as T;
  }
  async askAlone<T>(method: string, request: Request): Promise<T> {
    return this.answer(method, request) as T;
  }
  requestOf = (method: string) => this.asked.findLast(([name]) => name === method)?.[1];
  private answer(method: string, request: Request): unknown {
    this.asked.push([method, request]);
    if (method === 'grid')
      return {
        world: 4,
        axes: [],
        node_size: 4,
        nodes: 1,
        coords: { pp: [0, 0, 1, 1] },
        rank: request.rank,
        rank_info: { coords: { pp: 1 }, node: 7, peers: { pp: [0, 2] }, link: {}, layers: [4, 8] },
        warnings: [],
      };
    if (method === 'timeline') {
      const step = timeline(request.slow ? 3 * this.step_s : this.step_s);
      if (request.slow) step.step_without_slow_ranks_s = this.step_s;
      if (request.lost) {
        step.lost = { rank: 2, at_s: 0.75 };
        step.stuck = [{ rank: 0, since_s: 1, waits_for: 'rank 2 in all_reduce' }];
      }
      return step;
    }
    if (method === 'program') return program(request.rank as number);
    return placements;
  }
}
const program = (rank: number) => ({
  rank,
  world: 4,
  coords: { pp: 1, tp: 1 },
  mesh: { pp: 2, tp: 2 },
  digest: `digest of ${rank}`,
  step_s: 1,
  streams: ['compute', 'comm'],
  instructions: [
    {
      i: 0,
      stream: 'compute',
      pass: 'forward',
      op: 'linear',
      text: '0 linear',
      start: 0,
      end: 0.5,
      reads: [],
      writes: [1],
    },
    {
      i: 1,
      stream: 'compute',
      pass: 'backward',
      op: 'linear_dx',
      text: '1 linear_dx',
      start: 0.5,
      end: 1,
      reads: [1],
      writes: [],
    },
  ],
  buffers: [
    {
      id: 1,
      name: 'kept',
      arena: 'activations',
      offset: 0,
      bytes: 1024,
      dtype: 'f32',
      shape: [16, 16],
      part: 'activations',
      first: 0,
      last: 1,
      start: 0,
      end: 1,
    },
  ],
  arenas: [{ name: 'activations', bytes: 2048, fullest_bytes: 1024, fullest_at: 0, fullest_s: 0.25 }],
  memory_bytes: {
    parameters: 1,
    gradients: 2,
    optimizer: 3,
    activations: 123456,
    communication: 0,
    workspace: 0,
    total: 123462,
  },
});
const placements = {
  ranks: [0, 1],
  rank_coords: ['tp0', 'tp1'],
  tensors: [
    {
      name: 'w',
      role: 'weight',
      shape: [8, 8],
      local_shape: [2, 8],
      dtype: 'f32',
      type: '',
      parts: [{ axis: 'tp', kind: 'split', dim: 0 }],
      rows: 8,
      cols: 8,
      slices: [[[0, 2, 0, 8]], [[2, 8, 0, 8]]],
    },
  ],
  blocks: [
    {
      op: 'cast',
      name: 'c',
      inputs: [],
      cast: { axis: 'tp', from: 'P', to: 'R', collective: 'all_reduce', bytes: 1536 },
    },
  ],
};

let core: StubCore;
beforeEach(() => {
  core = new StubCore();
  useCore(core);
  for (const key of Object.keys(url.params)) url.set({ [key]: undefined });
});
afterEach(() => {
  cleanup();
  useCore(undefined);
});

describe('the place Look inside', () => {
  it('asks about the demo, or about the run of the address', () => {
    expect(insideRun.request().run_file).toBe(kDemo);
    expect(insideRun.request().files).toBeTruthy();
    url.set({ model: 'gpt2', tp: '2', sequence_parallel: 'true' });
    expect(insideRun.request({ rank: 1 })).toEqual({
      model: 'gpt2',
      tp: '2',
      sequence_parallel: true,
      rank: 1,
    });
    expect(insideRun.command('program')).toBe('tessera show program --model gpt2 --tp 2 --sequence-parallel');
  });

  it('shows the Program, the arena and the bytes that the core says, of the chosen rank', async () => {
    url.set({ rank: '3' });
    render(MapTab);
    await screen.findByText('rank 3, 2 instructions, 1 s', {}, kPatience);
    expect(screen.getByText('Arena activations, 2,048 B')).toBeTruthy();
    expect(screen.getByText('123,456')).toBeTruthy();
    expect(screen.getByText('digest of 3')).toBeTruthy();
    expect(screen.getByText('0 linear', { selector: '.prog div' }).className).toContain('on');
    expect(screen.getByText('At the cursor, 250.0 ms')).toBeTruthy();
    expect(core.requestOf('program')!.rank).toBe(3);
  });

  it('shows which part of a tensor a rank holds, and what a block sends', async () => {
    render(PlacementsTab);
    await screen.findByLabelText(/w: rank 0 holds 25 percent/);
    screen.getByLabelText(/w: rank 0 holds/).click();
    await screen.findByLabelText(/w: rank 1 holds 75 percent/);
    expect(url.param('rank')).toBe('1');
    expect(screen.getByText('casts hold 1.5 KiB')).toBeTruthy();
  });

  it('marks the row of the selected rank, and says how long the step is', async () => {
    url.set({ rank: '3' });
    render(ScheduleTab);
    await screen.findAllByText('2 s', {}, kPatience);
    expect(document.querySelector('.names .on')?.textContent).toBe('pp 1');
    expect(screen.getByText(/ranks of stage 1: idle 500.0 ms, 25.0 % of the step/)).toBeTruthy();
  });

  it('plays a slow and a lost rank', async () => {
    url.set({ rank: '2' });
    render(AllRanks);
    await screen.findByText(/2 s; 2 kinds of ranks stand for 4/, {}, kPatience);
    await fireEvent.click(screen.getByLabelText('it is slow'));
    await screen.findByText('6 s', { selector: 'b' }, kPatience);
    expect(screen.getByText(/\+4 s/)).toBeTruthy();
    expect(core.requestOf('timeline')!.slow).toEqual(['rank=2,factor=1.5']);
    await fireEvent.click(screen.getByLabelText('it is slow'));
    await fireEvent.click(screen.getByLabelText('it is lost'));
    await screen.findByText(/Rank 0 waits for rank 2 in all_reduce/, {}, kPatience);
    expect(screen.getByText('750.0 ms')).toBeTruthy();
  });

  it('shows a large step by stages until its instructions are played', async () => {
    render(AllRanks);
    await screen.findByText(/2 s; 2 kinds/, {}, kPatience);
    expect(core.asked.some(([method, request]) => method === 'timeline' && request.by === 'stages')).toBe(
      true,
    );
    await waitFor(() => expect(core.asked.some(([m, r]) => m === 'timeline' && !r.by)).toBe(true), kPatience);
  });
});

describe('rows of a step', () => {
  const step = timeline(4);
  it('names a class by its stage, and finds that of a rank', () => {
    expect(step.classes.map((one) => nameOf(one, step))).toEqual(['pp 0', 'pp 1']);
    expect([0, 1, 2, 3].map((rank) => classOf(step, rank))).toEqual([0, 0, 1, 1]);
  });
  it('has a legend of what is drawn, and of nothing else', () => {
    expect(legendOf(rowsOf(step, 10)).map((item) => item.name)).toEqual(['forward', 'backward', 'idle']);
  });
});
