import { cleanup, render, waitFor } from '@testing-library/svelte';
import { afterEach, expect, it } from 'vitest';
import { useCore, type Request } from '../../core/core';
import { url } from '../../state/url.svelte';
import FailureMonth from './FailureMonth.svelte';
import { daysOf, kDay, type FailingMonth } from './month';

// Two days and a half: a failure on the first, a wait over midnight.
const kMonth: FailingMonth = {
  days: 2.5,
  mtbf_s: 7200,
  save_every_s: 800,
  save_every_steps: 70,
  restart_s: 300,
  failures: 2,
  saves: 3,
  goodput: 0.6,
  goodput_by_formula: 0.7,
  seconds: { training: 1.5 * kDay, 'lost work': 0.25 * kDay, saves: 10, waiting: 0.75 * kDay, restarts: 0 },
  spans: [
    { phase: 'training', begin_s: 0, end_s: 0.25 * kDay },
    { phase: 'saves', begin_s: 0.25 * kDay, end_s: 0.25 * kDay + 10 },
    { phase: 'training', begin_s: 0.25 * kDay + 10, end_s: 0.5 * kDay },
    { phase: 'lost work', begin_s: 0.5 * kDay, end_s: 0.75 * kDay },
    { phase: 'waiting', begin_s: 0.75 * kDay, end_s: 1.5 * kDay },
    { phase: 'training', begin_s: 1.5 * kDay, end_s: 2.5 * kDay },
  ],
};
afterEach(() => {
  cleanup();
  useCore(undefined);
  url.set({ fail_hours: undefined, month_spares: undefined, month_seed: undefined });
});

it('has a row for each day, cut at midnight, without saves that cannot be seen', () => {
  const rows = daysOf(kMonth);
  expect(rows.map((row) => row.note)).toEqual(['50 %', '50 %', '100 %']);
  expect(rows[0]!.marks.map(({ start, end, color }) => [start / 24, end / 24, color])).toEqual([
    [0, 0.5, 'parameters'],
    [0.5, 0.75, 'communication'],
    [0.75, 1, 'workspace'],
  ]);
  expect(rows[1]!.marks.map(({ start, end }) => [start / 24, end / 24])).toEqual([
    [0, 0.5],
    [0.5, 1],
  ]);
  expect(rows[2]!.marks).toHaveLength(1);
});

it('says what the core says of the month, and asks for another', async () => {
  const asked: Request[] = [];
  useCore({
    ask: async <T>(_: string, request: Request) => {
      asked.push(request);
      return kMonth as T;
    },
    askAlone: () => Promise.reject(new Error('not asked')),
  });
  render(FailureMonth);
  const text = () => document.body.textContent!.replace(/\s+/g, ' ');
  await waitFor(() =>
    expect(text()).toContain(
      '2 failures, one in about 2 h; 60.0 % of the month counts, by the formula 70.0 %',
    ),
  );
  expect(text()).toContain('standing still in saves');
  expect(text()).not.toContain('restarts 0');
  expect(asked[0]).toMatchObject({ mtbf: '50000h', days: 30, spares: 8, seed: 1 });
  url.set({ month_spares: '-1', month_seed: '2' });
  await waitFor(() => expect(asked.at(-1)).toMatchObject({ seed: 2 }));
  expect(asked.at(-1)).not.toHaveProperty('spares');
});
