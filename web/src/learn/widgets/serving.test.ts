import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { useCore, type Request } from '../../core/core';
import { url } from '../../state/url.svelte';
import DecodeGroups from './DecodeGroups.svelte';
import PrefillPipeline from './PrefillPipeline.svelte';
import ServePlan from './ServePlan.svelte';
import { describeFrame, framesTable, headsOf, rowsOf, type ServePlan as Plan, type Serving } from './serving';

// A core that says what is put into it: the pictures must show that, and nothing of their own.
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
const text = () => document.body.textContent!.replace(/\s+/g, ' ');

const stage = (first_rank: number, cache: number) => ({
  first_rank,
  ranks: 2,
  first_layer: 3 * first_rank,
  layers: 6,
  embedding: first_rank === 0,
  head: first_rank > 0,
  memory_bytes: {
    parameters: 2 ** 30,
    activations: 0,
    communication: 0,
    workspace: 0,
    cache,
    total: 2 ** 30 + cache,
  },
  page_bytes: 4096,
});
// Numbers that no formula would give.
const kPlan: Plan = {
  model: { name: 'm', parameters: 1, layers: 12, heads: 8, kv_heads: 4, head_dim: 16 },
  mesh: { tp: 2, pp: 2, ranks: 4 },
  max_context: 512,
  fits: true,
  limit: {
    bytes: 3 * 2 ** 30,
    whose: 'one stub',
    rank: 2,
    beside_cache_bytes: 777,
    line_bytes: 55,
    page_bytes: 33,
  },
  cache: {
    pages: 4321,
    page: 16,
    tokens: 7,
    page_bytes: 2 ** 21,
    bytes_per_token: 5 * 1024,
    kv_heads: 'split',
    kv_heads_of_rank: 2,
    most_sequences: [
      { context: 128, sequences: 999 },
      { context: 512, sequences: 47 },
    ],
  },
  total_bytes: 1,
  stages: [stage(0, 2 ** 29), stage(2, 2 ** 30)],
};

it('says what the plan of a served model says, and asks again for another mesh', async () => {
  stub(() => kPlan);
  render(ServePlan);
  await waitFor(() =>
    expect(text()).toContain('Fits: 4,321 pages of 16 tokens, room for 47 texts of 512 tokens at once.'),
  );
  expect(asked).toEqual([
    [
      'serve_plan',
      { model: 'llama-3-70b', cluster: 'h100-8', mesh: 'tp=4,pp=2', dtype: 'bf16', max_context: 8192 },
    ],
  ]);
  // The fullest rank is of stage 1; its parts stand in the legend.
  expect(text()).toContain('cache 1.0 GiB');
  expect(
    screen
      .getAllByRole('listitem')
      .filter((e) => e.dataset.rank)
      .map((e) => e.textContent),
  ).toEqual(['rank 0 heads 0-1', 'rank 1 heads 2-3', 'rank 2 heads 0-1', 'rank 3 heads 2-3']);
  expect(text()).toContain('999 of 128 tokens at once, most');
  expect(screen.getByLabelText(/= \(3221225472 - 777 - 55\) \/ 33 = 4321 pages/)).toBeTruthy();
  url.set({ kv_tp: '16', kv_pp: '2' });
  await waitFor(() => expect(asked.at(-1)![1]).toMatchObject({ cluster: 'h100-32', mesh: 'tp=16,pp=2' }));
});

it('says what lacks room, and applies what the core offers', async () => {
  stub(() => ({
    ...kPlan,
    fits: false,
    cache: { ...kPlan.cache, kv_heads: 'whole' },
    changes: [
      { flag: '--max-context', value: '256', pages: 17 },
      { flag: '--mesh', value: 'tp=8,pp=4', pages: 18 },
    ],
  }));
  render(ServePlan);
  await waitFor(() => expect(text()).toContain('Does not fit: rank 2 needs 777 B beside the cache'));
  expect(text()).toContain('2 ranks cannot share 4 key heads: each keeps all of them');
  await fireEvent.click(screen.getByRole('button', { name: 'mesh tp=8,pp=4: 18 pages' }));
  await fireEvent.click(screen.getByRole('button', { name: 'max-context 256: 17 pages' }));
  await waitFor(() => expect(asked.at(-1)![1]).toMatchObject({ mesh: 'tp=8,pp=4', max_context: 256 }));
});

it('names the key heads of a rank', () => {
  expect(headsOf(kPlan, 1)).toBe('heads 2-3');
  expect(headsOf({ ...kPlan, cache: { ...kPlan.cache, kv_heads_of_rank: 1 } }, 1)).toBe('head 1');
  expect(headsOf({ ...kPlan, cache: { ...kPlan.cache, kv_heads: 'whole' } }, 1)).toBe('heads 0-3');
});

const kServing: Serving = {
  stages: 2,
  token_budget: 100,
  page: 16,
  pages: 9,
  makespan: 10,
  preemptions: 3,
  recomputed_tokens: 44,
  requests: [
    { arrival: 0, prompt: 60, answer: 2, first_token: 4.5, end: 10 },
    { arrival: 1, prompt: 60, answer: 2, first_token: 6.25, end: 9 },
  ],
  busy: [5, 2.5],
  frames: [
    {
      planned: 0,
      tokens: 60,
      pages_used: 4,
      parts: [[0, 0, 60, 0]],
      stages: [
        [0, 2],
        [2, 4],
      ],
    },
    {
      planned: 1,
      tokens: 61,
      pages_used: 8,
      parts: [
        [0, 60, 1, 1],
        [1, 0, 60, 0],
      ],
      stages: [
        [2, 5],
        [5, 7],
      ],
    },
    {
      planned: 5,
      tokens: 1,
      pages_used: 8,
      parts: [[1, 60, 1, 1]],
      stages: [
        [7, 8],
        [8, 10],
      ],
    },
  ],
};

it('has a row for each stage, and marks what a frame does', () => {
  const rows = rowsOf(kServing);
  expect(rows.map((row) => [row.name, row.note])).toEqual([
    ['stage 0', '50 %'],
    ['stage 1', '25 %'],
  ]);
  expect(rows[1]!.marks.map(({ start, end, color, text }) => [start, end, color, text])).toEqual([
    [2, 4, 'parameters', 'A'],
    [5, 7, 'optimizer', 'AB'],
    [8, 10, 'gradients', 'B'],
  ]);
  expect(describeFrame(kServing, 1, 1)).toBe(
    "Frame 1, on stage 1 from 5 ms to 7 ms: the next token of A; tokens 0 to 59 of B's prompt. " +
      '61 of at most 100 tokens; 8 of 9 pages are used.',
  );
  expect(framesTable(kServing).rows[1]).toEqual([1, '2-5', '5-7', 61, 8, 'B 0-59', 'A']);
});

it('compares a prompt in chunks with the same in one piece', async () => {
  stub((_, { chunk }) =>
    chunk ? { ...kServing, requests: [{ ...kServing.requests[0]!, first_token: 8 }] } : kServing,
  );
  render(PrefillPipeline);
  const figure = (key: string) => document.querySelector(`[data-figure=${key}]`)?.textContent;
  await waitFor(() => expect(figure('chunks')).toBe('4.5 ms'));
  expect(figure('whole')).toBe('8 ms');
  expect(figure('frames')).toBe('3');
  expect(asked[0]![1]).toMatchObject({ requests: 1, prompt: 4096, token_budget: 512 });
  expect(asked[1]![1]).toMatchObject({ prompt: 4096, token_budget: 4096, chunk: 4096 });
  url.set({ pf_prompt: '1024' });
  await waitFor(() => expect(asked.at(-1)![1]).toMatchObject({ prompt: 1024, token_budget: 1024 }));
});

it('shows what the scheduler did with requests, and asks for fewer pages', async () => {
  stub(() => kServing);
  render(DecodeGroups);
  const figure = (key: string) => document.querySelector(`[data-figure=${key}]`)?.textContent;
  await waitFor(() => expect(figure('preemptions')).toBe('3'));
  expect(figure('again')).toBe('44');
  expect(figure('busy')).toBe('50.0 %');
  expect(asked[0]![1]).not.toHaveProperty('pages');
  expect(asked[0]![1]).toMatchObject({ answer: 8, expected_answer: 8 });
  expect(
    [...document.querySelectorAll('tbody tr')].map((row) =>
      [...row.children].map((cell) => cell.textContent!.trim()),
    ),
  ).toEqual([
    ['A', '0 ms', '4.5 ms', '10 ms'],
    ['B', '1 ms', '6.25 ms', '9 ms'],
  ]);
  url.set({ dg_pages: '20', dg_apart: '40' });
  await waitFor(() => expect(asked.at(-1)![1]).toMatchObject({ pages: 20, arrive: 40 }));
});
