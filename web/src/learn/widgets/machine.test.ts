// Widgets of lessons 9 to 13 follow what the core says: it is a stub here that counts differently.
import { cleanup, render } from '@testing-library/svelte';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { useCore, type Request } from '../../core/core';
import { answersOf, kCases, pathOf, planAfter, splitOf, type Facts } from './decision';
import Accumulate from './Accumulate.svelte';
import ClusterTopology from './ClusterTopology.svelte';
import DecisionTree from './DecisionTree.svelte';
import DeviceInside from './DeviceInside.svelte';
import Faults from './Faults.svelte';
import MachineZoom from './MachineZoom.svelte';
import MemoryByStage from './MemoryByStage.svelte';
import { axesOf, kOrder, peersText, swapped } from './mesh';
import MeshGrid from './MeshGrid.svelte';
import { fromBits, inMemory, short, type NumberType } from './numbers';
import NumbersInBytes from './NumbersInBytes.svelte';
import Recompute from './Recompute.svelte';
import SmallUpdates from './SmallUpdates.svelte';
import StatesOfARank from './StatesOfARank.svelte';

const explained = (value: number, text = String(value)) => ({
  value,
  unit: '',
  text,
  what: 'stub',
  formula: 'x',
  numbers: 'y',
});

function stub(answer: (method: string, request: Request) => unknown) {
  const ask = vi.fn((method: string, request: Request) => Promise.resolve(answer(method, request)));
  useCore({ ask, askAlone: ask } as unknown as Parameters<typeof useCore>[0]);
  return ask;
}

afterEach(() => {
  cleanup();
  useCore(undefined);
  history.replaceState(null, '', '#/');
});

describe('StatesOfARank', () => {
  it('draws the bytes that the core gives, not sixteen of each', async () => {
    const given = (g: { master?: number; moments?: number }) => (g.master === 0 ? 30e9 : 50e9);
    stub((_, request) => {
      const g = (request as { given: { master?: number; moments?: number } }).given;
      const all = given(g);
      const names = ['stage0', 'stage1', 'stage2', 'stage3', 'total'];
      return {
        results: {
          ...Object.fromEntries(names.map((name) => [name, explained(all)])),
          weights: explained(10e9),
          gradients: explained(10e9),
          moments: explained(10e9),
          optimizer_shard: explained(25e9),
          gradient_shard: explained(5e9),
          per_parameter: explained(7),
          first_fit: explained(3),
        },
      };
    });
    const { findByText, findAllByRole } = render(StatesOfARank);
    expect(await findByText('7 bytes of a parameter')).toBeTruthy();
    expect((await findAllByRole('button', { name: /ZeRO-.: 50 GB/ })).length).toBe(4);
    expect(await findByText(/Fits without ZeRO: 50 GB/)).toBeTruthy();
  });
});

describe('Recompute', () => {
  it('shows the core of the core: bytes and FLOPs as they are given', async () => {
    stub(() => ({
      given: { layers: 6 },
      results: {
        none: explained(9e9),
        selective: explained(8e9),
        full: explained(7e9),
        root: explained(6e9),
        group: explained(3),
        selective_flops: explained(0.123),
        full_flops: explained(0.456),
      },
    }));
    const { findByText, findByRole, container } = render(Recompute);
    expect(await findByText(/7 GB kept, 45.6 % more FLOPs/)).toBeTruthy();
    expect(await findByRole('button', { name: /groups of 3: 6 GB/ })).toBeTruthy();
    expect(container.querySelectorAll('.blocks i').length).toBe(6);
  });
});

describe('SmallUpdates', () => {
  it('says how many updates were lost', async () => {
    stub(() => ({
      types: [],
      updates: {
        bf16: [
          [0, 1],
          [5, 1],
        ],
        master: [
          [0, 1],
          [5, 2],
        ],
        f32: [
          [0, 1],
          [5, 2],
        ],
        lost: 42,
        bf16_weight: 1,
        master_weight: 2,
        f32_weight: 2,
        wanted: 2,
      },
    }));
    const { findByText } = render(SmallUpdates);
    expect(await findByText(/42 of 1,000 updates/)).toBeTruthy();
  });
});

describe('MeshGrid', () => {
  it('says who a rank is, as the core says it, and warns as it warns', async () => {
    const ask = stub((method, request) => ({
      results: { ranks: explained(method === 'explain' ? 4321 : 0) },
      world: 128,
      axes: [{ axis: 'tp', size: 8, stride: 1 }],
      node_size: 8,
      nodes: 16,
      coords: { tp: [], pp: [] },
      rank: (request as { rank: number }).rank,
      rank_info: {
        coords: { tp: 3 },
        node: 77,
        stage: 9,
        data_shard: 5,
        data_shards: 6,
        layers: [10, 12],
        peers: { tp: [24, 25, 26] },
        link: { tp: 'string and cans' },
      },
      warnings: ['tp crosses the ocean'],
    }));
    const { findByText } = render(MeshGrid);
    expect(await findByText(/string and cans: ranks 24, 25, 26/)).toBeTruthy();
    expect(await findByText(/node 77, layers 10 to 11 \(stage 9\)/)).toBeTruthy();
    expect(await findByText('tp crosses the ocean.')).toBeTruthy();
    expect(await findByText('4,321')).toBeTruthy();
    expect(ask.mock.calls[0]![1]).toMatchObject({ rank: 27, mesh: { tp: 8, pp: 4, dp: 4 } });
  });
});

describe('DeviceInside', () => {
  it('draws as many multiprocessors as there are', async () => {
    const fact = (value: number) => ({ value, source: 'stub' });
    stub(() => ({
      device: {
        name: 'stub',
        memory_bytes: fact(2 ** 30),
        memory_bandwidth: fact(1e12),
        multiprocessors: fact(5),
        tensor_cores: fact(10),
        peak_flops: { f16: fact(3e12) },
      },
    }));
    const { findByText, container } = render(DeviceInside);
    expect(await findByText(/5 multiprocessors, 10 tensor cores, 2 of each/)).toBeTruthy();
    expect(container.querySelectorAll('.processor').length).toBe(5);
    expect(container.querySelectorAll('.unit').length).toBe(10);
  });
});

describe('Faults', () => {
  it('lists who waits for whom', async () => {
    stub(() => ({
      step_s: 2,
      end_s: 2,
      labels: ['F0'],
      passes: ['forward'],
      lost: { rank: 3, at_s: 1 },
      stuck: [{ rank: 6, since_s: 1.5, waits_for: 'rank 3 in all_reduce over tp' }],
      classes: [{ label: 'rank 3', members: [[3, 3]], compute_s: 1, idle_s: 1, rows: [] }],
    }));
    const { findByText } = render(Faults);
    expect(await findByText(/rank 6 waits for rank 3 in all_reduce over tp/)).toBeTruthy();
  });
});

describe('MachineZoom', () => {
  it('has the devices, bytes and bandwidths of the answer', async () => {
    stub(() => ({
      given: { gpus: 3, servers: 2, racks: 2, pods: 2, hbm: 7e12, nvlink: 5e11, network: 1e10 },
      results: {
        devices: explained(24),
        cliff: explained(50, 'fifty'),
        nvlink_ratio: explained(0.5),
        network_ratio: explained(0.1),
      },
      tables: { levels: { rows: [1, 3, 6, 12, 24].map((n) => ['', n, n * 1e9, n * 1e12]) } },
    }));
    const { findByText, container } = render(MachineZoom);
    expect(await findByText(/A server has 3 devices, 3 GB and 3 TFLOP\/s/)).toBeTruthy();
    expect(await findByText(/a factor of fifty/)).toBeTruthy();
    expect(container.querySelectorAll('.tiles i').length).toBe(3);
    expect(container.textContent).toContain('7,000 GB/s');
  });
});

describe('ClusterTopology', () => {
  const level = (name: string, link: string, devices: number) => ({
    ...{ name, link, devices, units: 1, shape: 'switch', oversubscription: 1, memory_bytes: 1e9 },
    ...{ bandwidth_bytes_s: 9e9, bandwidth_both_bytes_s: 18e9, text: '' },
  });
  it('paints the lanes of the answer, its rails and its bisection', async () => {
    stub(() => ({
      cluster: 'stub',
      devices: 12,
      node_devices: 4,
      rails: { value: 4, source: '' },
      bisection_bytes_s: 77e12,
      levels: [level('device', 'memory', 1), level('node', 'tin', 4), level('cluster', 'string', 12)],
      traffic: [{ axis: 'dp', link: 'string', bytes: 2 ** 30, busy_s: 2, exposed_s: 1 }],
    }));
    const { findByText, container } = render(ClusterTopology);
    expect(await findByText('1.0 GiB, busy 2 s, exposed 1 s')).toBeTruthy();
    expect(await findByText(/12 devices; 4 rails.*77 TB\/s across its middle/)).toBeTruthy();
    expect(container.querySelectorAll('.pick button').length).toBe(4);
  });
});

describe('MemoryByStage', () => {
  it('marks the heaviest stage, draws the reserve and lists the changes of the answer', async () => {
    const parts = ['parameters', 'gradients', 'optimizer', 'communication', 'workspace'];
    const of = (stage: number, gib: number) => ({
      pipeline_rank: stage,
      ranks: 1,
      stages: [{ stage, layers: 1, in_flight: 9 }],
      memory_bytes: {
        ...Object.fromEntries(parts.map((name) => [name, 0])),
        activations: gib * 2 ** 30,
        total: gib * 2 ** 30,
      },
    });
    const ask = stub(() => ({
      fits: false,
      peak_bytes: 30 * 2 ** 30,
      limit_bytes: 20 * 2 ** 30,
      reserved_bytes: 2 ** 30,
      classes: [of(0, 10), of(1, 30)],
      changes: [{ settings: ['a.b=c'], peak_bytes: 2 ** 30 }],
    }));
    const { findByText, container } = render(MemoryByStage);
    expect(
      await findByText(/Stage 1 needs 30.0 GiB and 1.0 GiB of reserve, of 21.0 GiB: 10.0 GiB too/),
    ).toBeTruthy();
    expect(await findByText('stage 1 is the heaviest')).toBeTruthy();
    expect(await findByText('a.b=c')).toBeTruthy();
    expect([...container.querySelectorAll('.top-label')].map((e) => e.textContent)).toEqual(['11.0', '31.0']);
    expect(ask.mock.calls[0]![1]).toMatchObject({ advice: false });
  });
});

describe('Accumulate', () => {
  it('has the batch and the activations of the answer', async () => {
    stub((_, request) => {
      const { topic, given } = request as { topic: string; given: { batch?: number } };
      return topic === 'accumulate'
        ? {
            results: {
              ...{ batch: explained(11), tokens: explained(22) },
              ...{ memory: explained(33), all_reduces: explained(44) },
            },
          }
        : { given, results: { fused: explained(5e9) } };
    });
    const { findByText } = render(Accumulate);
    expect(
      await findByText(/11 sequences, 22 tokens.*33 at one time; 44 all-reduce instead of 8/),
    ).toBeTruthy();
    expect(await findByText('K = 8: 5 GB')).toBeTruthy();
  });
});

describe('NumbersInBytes', () => {
  it('shows the bits, bytes and neighbours of the answer', async () => {
    const type = (name: string): NumberType => ({
      ...{ name, bits: 16, sign: '0', exponent: '10000000', mantissa: '1000000', hex: '4040' },
      ...{ stored: 3, stored_text: `three in ${name}`, relative_error: 0, spacing_at_value: 0.5 },
      ...{ max: 9, min_normal: 1e-9 },
    });
    stub(() => ({ types: [type('bf16'), type('f16')] }));
    const { findByText, container } = render(NumbersInBytes);
    expect(
      await findByText(/bf16 stores three in bf16, f16 three in f16. The next bf16 is 0.5 away/),
    ).toBeTruthy();
    expect(container.querySelector('.from')!.textContent).toBe('= 1.10000002 · 2128 − 127');
  });
});

describe('DecisionTree', () => {
  it('asks the plan of what the answers make, and says its verdict', async () => {
    const ask = stub((method, request) => {
      if (method === 'plan') return { fits: true, peak_bytes: 2 ** 30, limit_bytes: 2 ** 31 };
      if (method === 'explain') return { results: { total: explained(4e9), devices: explained(3) } };
      return (request as { kind: string }).kind === 'clusters'
        ? { clusters: [{ name: 'a100', device: 'd', node_devices: 2, links: [{ name: 'tin' }] }] }
        : { devices: [{ name: 'd', memory_bytes: { value: 1e9 } }] };
    });
    const { findByText } = render(DecisionTree);
    expect(await findByText(/TP2 \+ PP4 \+ DP32 \+ ZeRO-1: fits, 1.0 GiB of 2.0 GiB/)).toBeTruthy();
    expect(ask.mock.calls.at(-1)![1]).toMatchObject({ tp: '2', pp: '4', zero: '1' });
  });
});

describe('the decision tree', () => {
  const facts: Facts = {
    bytes: 1.12e12,
    devicesFilled: 14,
    memory: 80e9,
    devices: 256,
    node: 8,
    link: 'nvlink',
  };
  const none = ['', '', '', '', ''];
  it('leads 70B on 256 devices to all four', () => {
    expect(splitOf(facts, answersOf(facts, none)).name).toBe('TP8 + PP4 + DP8 + ZeRO-1');
  });
  it('replicates what fits on one device', () => {
    const small = { ...facts, devicesFilled: 0.2, devices: 8 };
    expect(splitOf(small, answersOf(small, none))).toMatchObject({ tp: 1, pp: 1, dp: 8, zero: 0 });
    expect(pathOf(small, answersOf(small, none))[1]!.asked).toBe(false);
  });
  it('follows the reader: without fast links there is no tensor parallelism', () => {
    const split = splitOf(facts, answersOf(facts, ['', 'no', '', '', '']));
    expect(split.tp).toBe(1);
    expect(split.pp * split.dp).toBe(256);
  });
  it('has a plan after every answer, with what is decided until then', () => {
    const one = kCases['70b-256']!;
    const split = splitOf(facts, answersOf(facts, none));
    const made = [0, 1, 2, 3, 4].map((i) => planAfter(i, one, split));
    expect(made.map((plan) => [plan.tp, plan.pp, plan.zero].join(' '))).toEqual([
      ...['1 1 0', '8 1 0', '8 4 0', '8 4 0', '8 4 1'],
    ]);
  });
  it('never takes more devices than there are', () => {
    for (const one of Object.values(kCases)) {
      for (const filled of [0.1, 1, 14, 81, 500]) {
        const f = { ...facts, devices: one.devices, devicesFilled: filled };
        const split = splitOf(f, answersOf(f, none));
        expect(split.tp * split.pp * split.dp).toBeLessThanOrEqual(one.devices);
      }
    }
  });
});

describe('texts', () => {
  it('has bytes as they lie in memory', () => {
    expect(inMemory('3f80')).toBe('80 3f');
    expect(inMemory('3dcccccd')).toBe('cd cc cc 3d');
  });
  it('reads bits, below what is normal too', () => {
    const bits = { sign: '1', exponent: '00000', mantissa: '01' } as NumberType;
    expect(fromBits(bits)).toEqual({ power: '1 − 15', digits: '−0.01' });
  });
  it('writes powers of ten where zeros would be many', () => {
    expect(short(1.17549435e-38, 2)).toBe('1.2\u00a0·\u00a010⁻³⁸');
    expect(short(65504, 5)).toBe('65,504');
    expect(short(null)).toBe('-');
  });
  it('changes the order of axes two by two', () => {
    expect(axesOf(kOrder)).toEqual(['tp', 'cp', 'dp', 'pp']);
    expect(swapped(kOrder, 0)).toBe('cp-tp-ep-dp-pp');
    expect(swapped(swapped(kOrder, 0), 0)).toBe(kOrder);
  });
  it('names few peers and counts many', () => {
    expect(peersText([0, 1])).toBe('ranks 0, 1');
    expect(peersText(Array.from({ length: 192 }, (_, i) => i))).toContain('192 in all');
  });
});
