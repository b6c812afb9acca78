import { cleanup, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { useCore, Refusal, type Core, type Request } from '../core/core';
import { url } from '../state/url.svelte';
import Plan from './Plan.svelte';

const kGib = 2 ** 30;
const kPatience = { timeout: 10_000 }; // it follows the plan, on machines that do much else
const memory = (total: number) => ({
  parameters: total / 2,
  gradients: 0,
  optimizer: 0,
  activations: total / 2,
  communication: 0,
  workspace: 0,
  total,
});
const classOf = (stage: number, total: number) => ({
  pipeline_rank: stage,
  first_rank: stage * 4,
  ranks: 4,
  stages: [{ stage, layers: 4, in_flight: 2 - stage }],
  memory_bytes: memory(total),
  traffic: [],
});

// A core whose numbers are its own: the page must follow it.
class StubCore implements Core {
  asked: [string, Request][] = [];
  peakGib = 90;
  refuse = '';

  async ask<T>(method: string, request: Request): Promise<T> {
    this.asked.push([method, request]);
    if (method === 'plan' && this.refuse) throw new Refusal(this.refuse, 2);
    return this.answer(method, request) as T;
  }
  async askAlone<T>(method: string, request: Request): Promise<T> {
    this.asked.push([method, request]);
    return this.answer(method, request) as T;
  }
  private answer(method: string, request: Request): unknown {
    switch (method) {
      case 'plan':
        return this.plan(request);
      case 'choices':
        return {
          model: { layers: 8, heads: 8, kv_heads: 8, experts: 0 },
          taken: { tp: 2, pp: 2, cp: 1, fsdp: 1, zero: 1, micro_batch: 1, global_batch: 8, seq_len: 128 },
          nearest: {},
          refused: { tp: [{ value: 3, why: '3 does not divide 8 heads.', use: [2, 4] }] },
          tp: [1, 2, 4, 8],
          pp: [1, 2],
          schedules: [{ name: '1f1b', ok: true }],
          recompute: [{ name: 'none', ok: true }],
        };
      case 'presets':
        return { models: [{ name: 'llama-3-405b' }], clusters: [{ name: 'h100', devices: 8 }], recipes: [] };
      case 'topology':
        return { levels: [] };
      case 'timeline':
        return { step_s: 3, world: 8, passes: [], labels: [], classes: [] };
      default:
        return { results: {}, tables: {}, notes: [] };
    }
  }
  private plan(request: Request) {
    const gib = request.set ? 70 : this.peakGib;
    return {
      world: 8,
      mesh: { tp: 2, pp: 2, dp: 2 },
      parameters: 1e9,
      source: 'templates',
      dtype: 'bf16',
      fits: gib <= 80,
      peak_bytes: gib * kGib,
      limit_bytes: 80 * kGib,
      classes: [classOf(0, gib * kGib), classOf(0, 10 * kGib), classOf(1, 50 * kGib)],
      guesses: [],
      cluster: { name: 'h100-8', device: 'h100', devices: 8, devices_in_all: 8 },
      time: { step_s: 2, compute_s: 1, bubble_s: 0.5, optimizer_s: 0.1, exposed_s: { tp: 0.4 } },
      rates: { tokens_per_s: 1000, tflops_per_device: 100, mfu: 0.25, hfu: 0.25 },
      links: [],
      why: [{ title: 'Because.', text: 'The core says so.' }],
      ...(request.advice === false
        ? {}
        : { changes: [{ settings: ['train.gradients=bf16'], peak_bytes: 70 * kGib, step_s: 1.5 }] }),
    };
  }
}

// The verdict, whose numbers are elements of their own.
const says = (text: string) => (_: string, element: Element | null) =>
  element?.matches('.says') === true && element.textContent!.replace(/\s+/g, ' ').includes(text);

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

describe('the place Plan', () => {
  it('says what the core says of the heaviest rank of a stage', async () => {
    render(Plan);
    await screen.findByText(says('Stage 0 needs 90.0 GiB of 80.0 GiB: 10.0 GiB too much'));
    expect(screen.getByText('Does not fit.')).toBeTruthy();
    expect(await screen.findByText('The core says so.')).toBeTruthy();
    expect(core.asked.find(([method]) => method === 'plan')![1].advice).toBe(false);
  });

  it('offers changes after the plan, and applies one', async () => {
    render(Plan);
    const apply = await screen.findByText('Apply', {}, kPatience);
    expect(screen.getByText('70.0 GiB, step 1.5 s (−500.0 ms)')).toBeTruthy();
    apply.click();
    await screen.findByText(says('Stage 0 needs 70.0 GiB of 80.0 GiB: 10.0 GiB to spare'));
    expect(url.param('gradients')).toBe('bf16');
    expect(screen.queryByText('Apply')).toBeNull();
  });

  it('keeps the picture of the last run when one is refused, and says why', async () => {
    render(Plan);
    await screen.findByText(says('90.0 GiB of 80.0 GiB'));
    core.refuse = 'tp 16 does not divide 8 heads';
    url.set({ tp: '16', model: 'gpt2' });
    await waitFor(() =>
      expect(screen.getAllByText('tp 16 does not divide 8 heads').length).toBeGreaterThan(0),
    );
    expect(screen.getByText(says('90.0 GiB of 80.0 GiB'))).toBeTruthy();
  });

  it('pins A, and shows differences with their sign', async () => {
    render(Plan);
    await screen.findByText(says('90.0 GiB of 80.0 GiB'));
    (await screen.findByText('Pin as A')).click();
    url.set({ gradients: 'bf16', model: 'llama-3-405b' });
    await screen.findByText('−20.0 GiB');
    screen.getByText('swap (x)').click();
    await screen.findByText('+20.0 GiB');
  });
});
