// Widgets that show an explanation of the core: with a core that says something else they show that.
import { cleanup, render, waitFor } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { useCore, type Request } from '../../core/core';
import { url } from '../../state/url.svelte';
import ActivationBars from './ActivationBars.svelte';
import BubbleCurve from './BubbleCurve.svelte';
import ContextNumbers from './ContextNumbers.svelte';
import StageMessages from './StageMessages.svelte';
import TensorTraffic from './TensorTraffic.svelte';

let asked: Request[];
// `value`: of every result, whatever is asked; each result also says its name.
function stub(value: (name: string, given: Record<string, unknown>) => number) {
  asked = [];
  useCore({
    ask: async <T>(_: string, request: Request) => {
      asked.push(request);
      const given = request.given as Record<string, unknown>;
      const results = new Proxy(
        {},
        {
          get: (_target, name) => {
            const number = value(String(name), given);
            return {
              value: number,
              unit: '',
              text: `${String(name)} ${number}`,
              what: String(name),
              formula: 'f',
              numbers: 'n',
            };
          },
          ownKeys: () => [],
        },
      );
      return { topic: request.topic, given, results, curves: {} } as T;
    },
    askAlone: () => Promise.reject(new Error('not asked')),
  });
}
beforeEach(() => {
  for (const key of Object.keys(url.params)) url.set({ [key]: undefined });
});
afterEach(() => {
  cleanup();
  useCore(undefined);
});
const text = () => document.body.textContent!.replace(/\s+/g, ' ');

it('the fewest micro-batches and the bubble are those of the core', async () => {
  stub((name, given) => (name === 'fewest' ? 1000 + Number(given.ranks) : 0.125));
  render(BubbleCurve);
  await waitFor(() => expect(text()).toContain('P = 4 needs M = 1004, P = 8 needs M = 1008'));
  expect(text()).toContain('12.5 %');
  url.set({ below: '20' });
  await waitFor(() => expect(asked.at(-1)!.given).toMatchObject({ below: '20%' }));
});

it('what a boundary carries is what the core says', async () => {
  stub((name) => (name === 'boundary' ? 7 * 1024 : 3));
  render(StageMessages);
  await waitFor(() => expect(text()).toContain('7.0 KiB 7,168 B for each micro-batch'));
  url.set({ seq: '64' });
  await waitFor(() => expect(asked.at(-1)!.given).toMatchObject({ seq: 64 }));
});

it('a long sequence over ranks is what the core says of it', async () => {
  stub((name) => (name === 'split_activations' ? 5e9 : name === 'activations' ? 60e9 : 0.25));
  render(ContextNumbers);
  await waitFor(() => expect(text()).toContain('steps 0.25'));
  expect(text()).toContain('time of a hop 250.0 ms');
  expect([...document.querySelectorAll('.top-label')].map((label) => label.textContent)).toEqual([
    '60.0',
    '5.0',
  ]);
});

it('traffic of tensor parallelism is what the core says, the longer bar the slower link', async () => {
  stub(
    (name) => ({ payload: 5 * 2 ** 20, calls: 9, sent: 2 ** 30, ring_time: 0.1, slow_time: 0.4 })[name] ?? 1,
  );
  render(TensorTraffic);
  await waitFor(() => expect(text()).toContain('one all-reduce 5.0 MiB'));
  for (const part of ['backward 9', '1.0 GiB', '100.0 ms', '400.0 ms']) expect(text()).toContain(part);
  const widths = [...document.querySelectorAll<HTMLElement>('.track i')].map((bar) => bar.style.width);
  expect(widths).toEqual(['25%', '100%']);
});

it('activations with and without a split are those of the core', async () => {
  stub((name, given) => (name === 'fused' ? 40e9 / Number(given.tp) : 3e9));
  render(ActivationBars);
  const labels = () => [...document.querySelectorAll('.top-label')].map((label) => label.textContent);
  await waitFor(() => expect(labels()).toEqual(['40.0', '5.0', '3.0']));
  url.set({ tp: '4' });
  await waitFor(() => expect(labels()).toEqual(['40.0', '10.0', '3.0']));
});
