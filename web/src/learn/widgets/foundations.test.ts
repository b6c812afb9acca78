// Widgets of the first four lessons, with a core put in place that says other numbers than the real
// one: what is shown must follow it.
import { cleanup, fireEvent, render, waitFor } from '@testing-library/svelte';
import { afterEach, describe, expect, it } from 'vitest';
import { useCore, type Request } from '../../core/core';
import { url } from '../../state/url.svelte';
import AllReduceTime from './AllReduceTime.svelte';
import BucketOverlap from './BucketOverlap.svelte';
import ComputeWall from './ComputeWall.svelte';
import DataParallelStep from './DataParallelStep.svelte';
import DevicesByYear from './DevicesByYear.svelte';
import EightCollectives from './EightCollectives.svelte';
import FsdpGathers from './FsdpGathers.svelte';
import HsdpSplit from './HsdpSplit.svelte';
import OneGpu from './OneGpu.svelte';
import RingStepper from './RingStepper.svelte';
import Roofline from './Roofline.svelte';
import ScalingGap from './ScalingGap.svelte';
import ZeroCalculator from './ZeroCalculator.svelte';
import { exampleOf, trafficOf } from './collective';

// Spaces that do not break read as spaces.
const textOf = (element: Element) => (element.textContent ?? '').replaceAll('\u00a0', ' ');
const asked: [string, Request][] = [];
function core(answers: Record<string, unknown>) {
  const ask = async <T>(method: string, request: Request) => {
    asked.push([method, request]);
    const key = method === 'explain' ? String(request.topic) : method;
    if (!(key in answers)) throw new Error(`no answer for ${key}`);
    return answers[key] as T;
  };
  useCore({ ask, askAlone: ask });
}
const result = (value: number, text = String(value)) => ({
  value,
  unit: '',
  text,
  what: 'what',
  formula: 'a',
  numbers: 'b',
});
const explanation = (results: Record<string, number>, given = {}, tables = {}) => ({
  topic: '',
  title: '',
  given,
  results: Object.fromEntries(Object.entries(results).map(([name, value]) => [name, result(value)])),
  tables,
  notes: ['a note of the core'],
});
const device = (name: string, year: number) => ({
  name,
  year,
  memory_bytes: { value: 9e9, provenance: '', source: 'a sheet' },
  peak_flops: { value: 7e12, provenance: '', source: 'a sheet' },
  memory_bandwidth: { value: 5e9, provenance: '', source: 'a sheet' },
});
const presets = { devices: [device('newer', 2031), device('older', 2030)] };

afterEach(() => {
  cleanup();
  useCore(undefined);
  url.set(Object.fromEntries(Object.keys(url.params).map((name) => [name, undefined])));
  asked.length = 0;
});

describe('OneGpu', () => {
  const memory = explanation(
    { weights: 1e9, gradients: 2e9, master: 3e9, moments: 4e9, total: 10e9, first_fit: 5 },
    { memory: 3e9 },
  );
  const zero = explanation(
    { stage3: 4e9 },
    {},
    {
      ranks: {
        columns: [],
        rows: [
          [1, 8e9, 0, 0, 8e9],
          [2, 8e9, 0, 0, 4e9],
        ],
      },
    },
  );
  it('says what the core says, and how much is too much', async () => {
    core({ memory, zero, presets });
    const { getAllByRole } = render(OneGpu);
    await waitFor(() =>
      expect(
        getAllByRole('status')
          .map((e) => e.textContent)
          .join(),
      ).toContain('1 GB too much'),
    );
    const text = getAllByRole('status')
      .map((e) => e.textContent)
      .join();
    expect(text).toContain('keep 10 GB');
    expect(text).toContain('5 devices hold them');
  });
  it('asks again when its state in the address changes', async () => {
    core({ memory, zero, presets });
    render(OneGpu);
    url.set({ params: '405' });
    await waitFor(() =>
      expect(asked.some(([, r]) => r.topic === 'memory' && JSON.stringify(r).includes('405B'))).toBe(true),
    );
  });
});

describe('ScalingGap', () => {
  it('draws the table and names the gap of its year', async () => {
    const table = {
      years: {
        columns: ['year', 'models', 'devices', 'gap'],
        rows: [
          [0, 1, 1, 1],
          [1, 7, 2, 3.5],
        ],
      },
    };
    core({ scaling: explanation({ models: 7, devices: 2, gap: 3.5 }, {}, table) });
    const { container } = render(ScalingGap);
    await waitFor(() => expect(textOf(container)).toContain('3.5 ×'));
    expect(textOf(container)).toContain('a note of the core');
  });
});

describe('DevicesByYear', () => {
  it('puts devices in the order of their years', async () => {
    core({ presets });
    const { findAllByRole } = render(DevicesByYear);
    const items = await findAllByRole('listitem');
    expect(items.map((item) => item.textContent?.replace(/\s+/g, ' ').trim())).toEqual([
      '2030 older 7 TFLOP/s',
      '2031 newer 7 TFLOP/s',
    ]);
  });
});

const cell = (v: number | null, ...from: number[]) => ({ v, from });
const before = [
  [cell(5, 0), cell(6, 0)],
  [cell(50, 1), cell(60, 1)],
];
const after = [
  [cell(55, 0, 1), cell(66, 0, 1)],
  [cell(55, 0, 1), cell(66, 0, 1)],
];
const move = (from: number, to: number, chunk: number) => ({
  from,
  to,
  chunk,
  at: chunk,
  reduce: true,
  value: 1,
});
const played = {
  op: 'all_reduce',
  algorithm: 'ring',
  ranks: 2,
  chunks: 2,
  algorithms: ['ring', 'tree'],
  digits: true,
  before,
  steps: [
    { phase: 'reduce-scatter', text: 'First text.', moves: [move(0, 1, 0), move(1, 0, 1)], state: before },
    { phase: 'all-gather', text: 'Second text.', moves: [move(1, 0, 0)], state: after },
  ],
  after,
  expected: after,
  equal: true,
  sent_chunks: [1, 2],
  sent_formula: { formula: 'n B', numbers: '2 * 2', value: 77 },
  messages: 3,
};

describe('RingStepper', () => {
  it('shows the state, the text and the phase of its step, and walks back', async () => {
    core({ collective: played });
    const { container, getByText } = render(RingStepper);
    await waitFor(() => expect(textOf(container)).toContain('Second text.'));
    expect(textOf(container)).toContain('All-gather, step 1 of 1.');
    expect(textOf(container)).toContain('All ranks hold the same sum.');
    expect(container.querySelector('[data-rank="1"][data-chunk="1"]')?.textContent).toContain('66');
    expect(textOf(container)).toContain('77 chunks');
    await fireEvent.click(getByText('◂ Back'));
    expect(textOf(container)).toContain('Reduce-scatter, step 1 of 1.');
    expect(textOf(container)).toContain('Every rank sends one chunk and gets one chunk.');
    expect(url.param('step')).toBe('1');
  });
  it('shows who waits when a rank is lost', async () => {
    url.set({ lost: '1' });
    core({
      collective: {
        ...played,
        hang: { step: 2, waits: [{ rank: 0, for: 1, step: 2 }], text: 'Rank 1 is gone.' },
      },
    });
    const { container } = render(RingStepper);
    await waitFor(() => expect(textOf(container)).toContain('Rank 1 is gone.'));
    expect(textOf(container)).toContain('waits for 1');
    expect(asked.at(-1)?.[1]).toMatchObject({ lost: 1 });
  });
});

describe('what a step says', () => {
  it('names the rank that has most to do', () => {
    const step = { phase: '', text: '', state: before, moves: [move(1, 0, 0), move(2, 0, 1)] };
    expect(trafficOf(step, 4)).toBe('Rank 0 gets 2 chunks. One rank does nothing.');
  });
  it('reads a sum', () => {
    expect(exampleOf([[cell(110, 2, 1)], [cell(1, 0)], [cell(1, 0)]])).toBe(
      '110 has ranks 1 and 2, and lacks rank 0.',
    );
  });
});

describe('EightCollectives', () => {
  it('shows before and after, and the halves of an all-reduce', async () => {
    core({ collective: played, ring: explanation({ sent: 3e9, half_sent: 1e9 }) });
    const { container } = render(EightCollectives);
    await waitFor(() => expect(textOf(container)).toContain('2 steps = 2 + 2'));
    expect(textOf(container)).toContain('77 chunks = 77 + 77');
  });
});

describe('AllReduceTime', () => {
  it('draws the curve of the core, and asks for trees only with latency', async () => {
    const table = {
      ranks: {
        columns: [],
        rows: [
          [2, 1, 3],
          [4, 1, 4],
        ],
      },
    };
    core({
      ring: explanation({ time: 4, limit: 6, sent: 1, naive: 2 }, {}, table),
      tree: explanation({ tree_time: 9, crossover: 8 }),
    });
    const { container } = render(AllReduceTime);
    await waitFor(() => expect(textOf(container)).toContain('2X/B = 6'));
    expect(asked.some(([, r]) => r.topic === 'tree')).toBe(false);
    url.set({ latency: 'true' });
    await waitFor(() => expect(textOf(container)).toContain('the tree is faster below 8'));
  });
});

describe('DataParallelStep', () => {
  it('has a column for each gradient, and the mean on every rank', async () => {
    core({
      average: explanation({ sum: 12, mean: 4, update: -0.5 }, { gradients: [3, 4, 5] }),
      accumulate: explanation({ per_rank: 21, needed_steps: 2 }),
    });
    const { container, getByText } = render(DataParallelStep);
    await waitFor(() => expect(container.querySelectorAll('[data-state="All-reduce"]')).toHaveLength(3));
    const cells = (state: string) =>
      [...container.querySelectorAll(`[data-state="${state}"]`)].map((e) => e.textContent);
    expect(cells('Backward')).toEqual(['3', '4', '5']);
    expect(cells('All-reduce')).toEqual(['4', '4', '4']);
    expect(cells('Update')).toEqual(['', '', '']);
    await fireEvent.click(getByText('Step ▸'));
    expect(cells('Update')).toEqual(['w − 0.5', 'w − 0.5', 'w − 0.5']);
  });
});

describe('ComputeWall', () => {
  it('says the times of the core, and draws a point for each number of devices', async () => {
    const day = 86_400;
    core({
      flops: explanation({ flops: 11, one_device: 12, at_peak: 13 * day, time: 14 * day }),
      presets,
    });
    const { container } = render(ComputeWall);
    await waitFor(() =>
      expect(container.querySelector('[data-figure="time"]')?.textContent).toBe(String(14 * day)),
    );
    expect(container.querySelector('[data-figure="flops"]')?.textContent).toBe('11');
    await waitFor(() => expect(container.querySelectorAll('circle[r="3"]')).toHaveLength(8));
    url.set({ mfu: '50' });
    await waitFor(() => expect(asked.some(([, r]) => JSON.stringify(r).includes('"mfu":"50%"'))).toBe(true));
  });
});

describe('Roofline', () => {
  it('puts the ridge, the product and ReLU where the core says', async () => {
    const results = {
      ...{ ridge: 30, intensity: 90, attainable: 3e12, relu_intensity: 0.5, relu_attainable: 5e10 },
      ...{ compute_time: 1, memory_time: 2, load_intensity: 91, relu_load_intensity: 0.6 },
    };
    core({ roofline: explanation(results, { peak: 3e12 }), presets });
    const { container } = render(Roofline);
    await waitFor(() => expect(textOf(container)).toContain('ridge 30'));
    expect(textOf(container)).toContain('ReLU 0.5');
    expect(textOf(container)).toContain('a note of the core');
    expect(textOf(container)).toContain('ReLU 0.590FLOP per byte');
    url.set({ m: '1' });
    await waitFor(() => expect(JSON.stringify(asked.at(-1))).toContain('"m":'));
  });
});

const rank = (axis: string) => ({
  label: 'rank 0',
  ranks: 1,
  compute_s: 1,
  update_s: 0,
  exposed_s: { [axis]: 1 },
  communication_s: { [axis]: 4 },
  memory_bytes: 3 * 2 ** 30,
  fullest_bytes: 1,
  rows: [{ stream: 'compute', marks: [[0, 1, 0, 0]] }],
});
const simulated = (axis: string) => ({
  ...{ step_s: 9, parameters: 1, world: 1, passes: ['forward'], labels: ['a'], classes: [rank(axis)] },
});

describe('BucketOverlap', () => {
  it('shows what is hidden and what is exposed', async () => {
    core({ timeline: simulated('dp'), ring: explanation({ sent: 5 }) });
    const { container } = render(BucketOverlap);
    await waitFor(() => expect(container.querySelector('[data-figure="step"]')?.textContent).toBe('9 s'));
    expect(container.querySelector('[data-figure="hidden"]')?.textContent).toBe('3 s');
    expect(textOf(container)).toContain('hidden 75.0 %');
    url.set({ bucket_mb: '100' });
    await waitFor(() => expect(JSON.stringify(asked)).toContain('bucket_mb=100'));
  });
});

describe('FsdpGathers', () => {
  it('asks for units, prefetch and release, and says what the core says', async () => {
    core({ timeline: simulated('fsdp'), zero: explanation({ inside_bytes: 66 }) });
    url.set({ unit_blocks: '4', prefetch: '2', again: 'false' });
    const { container } = render(FsdpGathers);
    await waitFor(() => expect(container.querySelector('[data-figure="exposed"]')?.textContent).toBe('1 s'));
    expect(textOf(container)).toContain('A rank needs 3.0 GiB');
    expect(asked.find(([method]) => method === 'timeline')?.[1].set).toEqual([
      'parallel.prefetch=2',
      'parallel.unit_blocks=4',
      'parallel.release_after_forward=false',
    ]);
  });
});

describe('ZeroCalculator', () => {
  it('follows the core, stage by stage', async () => {
    const results = {
      ...{
        stage0: 100e9,
        stage1: 40e9,
        stage2: 30e9,
        stage3: 15e9,
        optimizer_shard: 8e9,
        gradient_shard: 4e9,
      },
      ...{
        largest0: 1,
        largest1: 2,
        largest2: 3,
        largest3: 44,
        volume0: 2,
        volume1: 2,
        volume2: 2,
        volume3: 9,
      },
    };
    const table = { ranks: { columns: ['ranks', 'ZeRO-0'], rows: [[1, 123e9]] } };
    core({
      zero: explanation(results, { memory: 12e9 }, table),
      memory: explanation({ master: 1e9, moments: 2e9, gradients: 3e9 }),
      presets,
    });
    const { container } = render(ZeroCalculator);
    await waitFor(() => expect(textOf(container)).toContain('3 GB too much'));
    expect(textOf(container)).toContain('parameters 3 GB');
    expect(textOf(container)).toContain('9 P sent');
    expect(textOf(container)).toContain('has 44 parameters');
    expect(textOf(container)).toContain('123');
  });
});

describe('HsdpSplit', () => {
  it('draws its groups and says what is sent where', async () => {
    core({
      zero: explanation({ groups: 8, hybrid: 5e9, inside_bytes: 6e9, across_bytes: 7e9 }, { memory: 4e9 }),
    });
    const { container } = render(HsdpSplit);
    await waitFor(() => expect(textOf(container)).toContain('Does not fit'));
    expect(textOf(container)).toContain('8 groups of 8');
  });
});
