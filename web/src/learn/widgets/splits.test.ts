import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, expect, it } from 'vitest';
import { useCore, type Request } from '../../core/core';
import ContextRing from './ContextRing.svelte';
import ExpertRouting from './ExpertRouting.svelte';
import SequenceRegions from './SequenceRegions.svelte';
import TensorMatmul from './TensorMatmul.svelte';
import { arrivalsOf, type Routing } from './experts';
import { linesOf, type Placements } from './placements';
import { cutsOf, heldText, type SplitProduct } from './tensor_product';

// A core that says what is put into it: widgets must show that, and nothing of their own.
function stub(answer: (method: string, request: Request) => unknown) {
  useCore({
    ask: async <T>(method: string, request: Request) => answer(method, request) as T,
    askAlone: () => Promise.reject(new Error('not asked')),
  });
}
afterEach(() => {
  cleanup();
  useCore(undefined);
  history.replaceState(null, '', '#/learn/tensor');
  dispatchEvent(new HashChangeEvent('hashchange'));
});

const kSaid = { value: 123, unit: 'count', text: '123', what: 'said', formula: 'f', numbers: 'n' };
const kTold = { results: { steps: kSaid, payload: kSaid, heads_per_rank: kSaid, sent: kSaid } };
const kProduct: SplitProduct = {
  split: 'row',
  ranks: 2,
  a: [[1, 2]],
  b: [[30], [40]],
  c: [[110]],
  shards: [0, 1].map((rank) => ({
    rank,
    a: { rows: [0, 1], cols: [rank, rank + 1] },
    b: { rows: [rank, rank + 1], cols: [0, 1] },
    result: [[rank === 0 ? 30 : 80]],
    rows: [0, 1],
    cols: [0, 1],
    partial: true,
  })),
  forward: [{ name: 'all_reduce', value: 'part', elements: 1, example: { bytes: 7, text: 'seven bytes' } }],
  backward: [],
  result: [[110]],
  equal: true,
  collectives_forward: 1,
  collectives_backward: 0,
  why: 'because',
};

it('finds the cuts of a product, and says what a rank holds', () => {
  expect(cutsOf(kProduct, 'a')).toEqual({ cutRows: [], cutCols: [1] });
  expect(cutsOf(kProduct, 'b')).toEqual({ cutRows: [1], cutCols: [] });
  expect(heldText(kProduct, kProduct.shards[1]!)).toBe('column 1 of A, row 1 of B');
});

it('adds up the partial sums that the core gave', async () => {
  stub((method) => (method === 'explain' ? kTold : kProduct));
  render(TensorMatmul);
  await waitFor(() => expect(screen.getByRole('status').textContent).toContain('30 + 80 = 110'));
  const said = screen.getByRole('status').textContent;
  expect(said).toContain('One all-reduce of 1 numbers forward');
  expect(said).toContain('equal to that of one rank');
  expect(screen.getByText(/seven bytes/)).toBeTruthy();
  expect(await screen.findAllByLabelText('said: f = n = 123')).toHaveLength(2);
});

it('says so when the result is not that of one rank, and when nothing is sent', async () => {
  stub((method) => (method === 'explain' ? kTold : { ...kProduct, forward: [], equal: false }));
  render(TensorMatmul);
  await waitFor(() => expect(screen.getByRole('status').textContent).toContain('Nothing is sent forward'));
  expect(screen.getByRole('status').textContent).toContain('differs from that of one rank');
});

const kRouting: Routing = {
  tokens: 4,
  experts: 2,
  top_k: 1,
  ranks: 2,
  capacity: 2,
  capacity_formula: { formula: 'c', numbers: '2', value: 2 },
  choices: [[0], [0], [0], [1]],
  weights: [[1], [1], [1], [1]],
  kept: [[true], [true], [false], [true]],
  loads: [3, 1],
  dropped: [1, 0],
  dropped_share: 0.25,
  sent: [
    [2, 0],
    [0, 1],
  ],
  received: [2, 1],
  bytes_formula: { formula: 'b', numbers: '0', value: 0 },
  imbalance: 1.5,
  expert_rank: [0, 1],
  token_rank: [0, 0, 1, 1],
  note: 'a note of the core',
};

it('brings tokens to their experts, and marks those without room', async () => {
  expect(arrivalsOf(kRouting, 0).map((visit) => visit.token)).toEqual([0, 1, 2]);
  stub(() => kRouting);
  render(ExpertRouting);
  await waitFor(() => expect(screen.getByText('1.5')).toBeTruthy());
  expect(screen.getByText('25.0 %')).toBeTruthy();
  await fireEvent.click(screen.getByRole('button', { name: 'token 2, no room' }));
  await waitFor(() =>
    expect(screen.getByText(/Token 2, at home on rank 1/).textContent).toContain(
      'expert 0 on rank 0 (no room)',
    ),
  );
});

it('follows the moves of the ring that the core gives', async () => {
  const step = (of: number[]) => ({ moves: of.map((origin, to) => ({ from: 1 - to, to, of: [origin] })) });
  stub((method) => (method === 'explain' ? kTold : { ranks: 2, steps: [step([1, 0])] }));
  render(ContextRing);
  await waitFor(() => expect(screen.getByLabelText('said: f = n = 123')).toBeTruthy());
  await waitFor(() =>
    expect(screen.getByText(/4 of 4 blocks of scores are done, after 1 of 1 hops/)).toBeTruthy(),
  );
  await fireEvent.click(screen.getByRole('button', { name: /Back/ }));
  await waitFor(() =>
    expect(screen.getByText(/2 of 4 blocks of scores are done, after 0 of 1 hops/)).toBeTruthy(),
  );
});

const kBlock: Placements = {
  mesh: { tp: 2 },
  blocks: [
    {
      op: 'views', // weights: no result of the block
      name: 'layers.0.q.weight',
      inputs: [],
      output: 'layers.0.q.weight',
      parts: [{ axis: 'tp', kind: 'split', dim: 0, letter: 'S(0)' }],
    },
    {
      op: 'rms_norm',
      name: 'n',
      inputs: [],
      output: 'layers.0.mlp_norm',
      parts: [{ axis: 'tp', kind: 'split', dim: 0, letter: 'S(0)' }],
    },
    {
      op: 'cast',
      name: 'layers.0.mlp_norm.full',
      inputs: [],
      output: 'layers.0.mlp_norm.full',
      parts: [],
      cast: { axis: 'tp', from: 'S(0)', to: 'R', collective: 'all_gather', bytes: 2048 },
    },
    {
      op: 'cast',
      name: 'c',
      inputs: [],
      output: 'unused',
      parts: [],
      cast: { axis: 'tp', from: 'I', to: 'R', collective: 'none', bytes: 0 },
    },
  ],
};

it('shows regions by tokens and the collectives around them', async () => {
  expect(linesOf(kBlock)).toEqual([
    { name: 'n', held: 'tokens' },
    { name: 'mlp norm full', held: 'whole', collective: 'all-gather', bytes: 2048 },
    { name: 'mlp norm full', held: 'whole' },
  ]);
  const asked: unknown[] = [];
  stub((_method, request) => {
    asked.push(request.sequence_parallel);
    return kBlock;
  });
  render(SequenceRegions);
  await waitFor(() => expect(screen.getAllByText('all-gather')).toHaveLength(2));
  expect(screen.getAllByText('2.0 KiB')).toHaveLength(2);
  expect(asked).toEqual([false, true]);
});
