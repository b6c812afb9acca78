import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { useCore, type Request } from '../../core/core';
import CollectivesTab from '../../inside/CollectivesTab.svelte';
import { actions } from '../../state/actions.svelte';
import { url } from '../../state/url.svelte';
import ActivationsKept from './ActivationsKept.svelte';
import CheatSheet from './CheatSheet.svelte';
import CheckpointSize from './CheckpointSize.svelte';
import Exercise from './Exercise.svelte';
import FailureCost from './FailureCost.svelte';
import RecomputePlanned from './RecomputePlanned.svelte';

// A core that says what is put into it: widgets must show that, and nothing of their own.
let asked: [method: string, request: Request][];
function stub(answer: (method: string, request: Request) => unknown) {
  asked = [];
  useCore({
    ask: async <T>(method: string, request: Request) => {
      asked.push([method, request]);
      return answer(method, request) as T;
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
const said = (value: number, text = String(value)) => ({
  value,
  unit: '',
  text,
  what: 'said',
  formula: 'f',
  numbers: 'n',
});
const status = () => screen.getByRole('status').textContent!.replace(/\s+/g, ' ').trim();

it('knows from the core whether an exercise is right', async () => {
  stub(() => ({ results: { sent: said(3e9, '3 GB'), kept: said(4e9, '4 GB') } }));
  const of = {
    question: 'How much?',
    unit: 'GB',
    topic: 'ring',
    given: { ranks: 4 },
    result: ['sent', 'kept'],
    scale: 1e9,
    hint: 'Add them.',
  };
  render(Exercise, { of });
  const answer = async (text: string) => {
    await fireEvent.input(screen.getByLabelText('answer in GB'), { target: { value: text } });
    await fireEvent.click(screen.getByRole('button', { name: 'Check' }));
  };
  await answer('many');
  expect(status()).toContain('is not a number');
  expect(asked).toEqual([]);
  await answer('9');
  await waitFor(() => expect(status()).toBe('Not yet: 9 is too much.'));
  await answer('7.05'); // within two percent
  await waitFor(() => expect(status()).toMatch(/^Right: f = n = 3 GB; f = n = 4 GB/));
  expect(asked[0]).toEqual(['explain', { topic: 'ring', given: { ranks: 4 } }]);
  await fireEvent.click(screen.getByRole('button', { name: 'Hint' }));
  expect(screen.getByText('Add them.')).toBeTruthy();
  expect(screen.getByText('tessera explain ring --ranks 4')).toBeTruthy();
});

it('has a plan to open for every split of the cheat sheet, and the formulas of the core', async () => {
  stub((_, { topic }) => ({
    results: Object.fromEntries(
      ['total', 'stage3', 'time', 'bubble'].map((name) => [name, said(1, `${topic} says`)]),
    ),
  }));
  render(CheatSheet);
  await waitFor(() => expect(screen.getByLabelText(/bubble says/)).toBeTruthy());
  expect(asked.map(([, { topic }]) => topic)).toEqual(['memory', 'zero', 'ring', 'bubble']);
  const links = screen.getAllByRole<HTMLAnchorElement>('link', { name: /in Plan/ });
  expect(links).toHaveLength(8);
  for (const link of links) expect(link.getAttribute('href')).toMatch(/^#\/plan\?model=.*cluster=/);
});

it('shows what the planner says of every kind of recomputation', async () => {
  const plan = (value: string, step_s: number) => ({
    value,
    state_bytes: 2 ** 30,
    peak_bytes: 3 * 2 ** 30,
    step_s,
    mfu: 0.5,
  });
  stub(() => ({ plans: [plan('none', 2), plan('full', 3)] }));
  render(RecomputePlanned);
  await waitFor(() => expect(document.querySelectorAll('tbody tr')).toHaveLength(2));
  const cells = [...document.querySelectorAll('tbody tr:last-child > *')].map((cell) =>
    cell.textContent!.replaceAll('\u00a0', ' ').trim(),
  );
  expect(cells[0]).toBe('full');
  expect(cells[1]).toContain('2.0 GiB');
  expect(cells[4]).toContain('+1');
  expect(asked).toHaveLength(1);
  expect(asked[0]![0]).toBe('vary');
});

it('adds up what a checkpoint keeps, and asks how long that is written', async () => {
  stub((_, { topic }) => ({
    results:
      topic === 'memory'
        ? { weights: said(1e12, '1 TB'), master: said(2e12), moments: said(4e12) }
        : { once: said(9, '9 s, said') },
  }));
  render(CheckpointSize);
  await waitFor(() => expect(status()).toMatch(/^7 TB to write; at 256 GB\/s that is 9 s, said\./));
  expect(asked[0]![1]).toEqual({ topic: 'memory', given: { params: 405e9 } });
  expect(asked[1]![1]).toEqual({ topic: 'ring', given: { bytes: 7e12, ranks: 2, bandwidth: 256e9 } });
});

it('shows how often the core would save, and asks again for other failures', async () => {
  stub((_, { given }) => ({
    results: {
      mtbf: said(1, `${(given as { devices: number }).devices} s, said`),
      young: said(2),
      best: said(3, '13 s, said'),
      goodput: said(0.5, '50 %, said'),
      days: said(60, '60, said'),
      restarts: said(7, '7, said'),
    },
    tables: { intervals: { columns: ['saves', 'every', 'goodput'], rows: [['best', 3, 0.5]] } },
    notes: ['said'],
  }));
  render(FailureCost);
  await waitFor(() =>
    expect(status()).toMatch(/^A failure every 16384 s, said\. Save every 13 s, said: then 50 %, said of/),
  );
  expect(asked[0]![1]).toEqual({
    topic: 'failures',
    given: { devices: 16384, 'mtbf-device': 18e7, save: 30, restart: 300 },
  });
  url.set({ fail_devices: '8' });
  await waitFor(() => expect(status()).toMatch(/^A failure every 8 s, said/));
});

it('shows the activations that the core counts, and asks again for another split', async () => {
  stub((_, { given }) => ({
    results: Object.fromEntries(
      ['all', 'fused', 'sequence_parallel', 'full', 'rough'].map((name, i) => [
        name,
        said((i + 1) * 1e9 * (given as { tp: number }).tp),
      ]),
    ),
  }));
  render(ActivationsKept);
  await waitFor(() => expect(status()).toMatch(/Fused attention keeps 16.* instead of 8.* are 32/));
  url.set({ act_tp: '1' });
  await waitFor(() => expect(status()).toMatch(/Fused attention keeps 2.* instead of 1.* are 4/));
});

it('plays collectives in Look inside as in the lesson, and names the command', async () => {
  const cell = (v: number) => ({ v, from: [0, 1] });
  const state = [[cell(4321)], [cell(4321)]];
  const step = { phase: 'said', text: 'Said by the core.', moves: [], state };
  stub((_, { op }) => ({
    op,
    algorithm: 'ring',
    ranks: 2,
    chunks: 1,
    algorithms: ['ring'],
    digits: false,
    before: state,
    steps: [step, step],
    after: state,
    expected: state,
    equal: true,
    sent_chunks: [1, 1],
    sent_formula: { formula: 'f', numbers: 'n', value: 1 },
    messages: 2,
    results: {},
    tables: {},
    notes: [],
  }));
  render(CollectivesTab);
  await waitFor(() => expect(screen.getAllByText('4,321').length).toBeGreaterThan(1));
  expect(screen.getAllByText('Said by the core.').length).toBeGreaterThan(0);
  expect(actions.command).toContain('tessera show collective');
});
