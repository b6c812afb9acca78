import { cleanup, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, expect, it } from 'vitest';
import { useCore } from '../../core/core';
import PipelineTimeline from './PipelineTimeline.svelte';

const known = [
  { name: 'gpipe', title: 'GPipe', splits_backward: false, synchronous: true, virtual_stages: 1 },
  { name: '1f1b', title: '1F1B', splits_backward: false, synchronous: true, virtual_stages: 1 },
  { name: 'interleaved', title: 'Interleaved', splits_backward: false, synchronous: true, virtual_stages: 0 },
];
const asked: Record<string, unknown>[] = [];
// A core that says what no pipeline has: the page must show that, and nothing of its own.
function stub(bubble: number) {
  asked.length = 0;
  useCore({
    async ask<T>(_method: string, request: Record<string, unknown>) {
      asked.push(request);
      const answer = {
        schedule: request.schedule ?? '1f1b',
        title: 'stub',
        ranks: 1,
        stages: 1,
        micro_batches: 1,
        makespan: 3,
        bubble,
        ops: [[0, 0, 0, 0, 0, 1]],
        needs: [],
        rank_rows: [
          { rank: 0, stages: [0], busy: 1, idle: 2, peak_live: 77, live: [[0, 77]], weight_versions: 1 },
        ],
        known,
      };
      return answer as T;
    },
    askAlone: () => Promise.reject(new Error('not asked')),
  });
}
afterEach(() => {
  cleanup();
  useCore(undefined);
  location.hash = '';
});

it('shows what the core says of two schedules, and asks with its controls', async () => {
  stub(0.123);
  render(PipelineTimeline);
  await waitFor(() => expect(screen.getAllByText('12.3 %')).toHaveLength(2));
  expect(screen.getAllByText(/77/).length).toBeGreaterThan(1);
  const first = asked.find((request) => request.schedule === 'gpipe');
  expect(first).toMatchObject({
    ranks: 4,
    micro_batches: 8,
    forward: 1,
    input_grad: 1,
    weight_grad: 1,
    p2p: 0,
  });
  expect(first).not.toHaveProperty('virtual_stages');
});

it('asks for stages of its own cost, the others one each, and for virtual stages where they can be chosen', async () => {
  location.hash = '#/learn/pipelines?schedule=interleaved&beside=none&p=2&v=2&costs=1 3';
  dispatchEvent(new HashChangeEvent('hashchange'));
  stub(0.5);
  render(PipelineTimeline);
  await waitFor(() => expect(screen.getAllByText('50.0 %')).toHaveLength(1));
  expect(asked.find((request) => request.schedule === 'interleaved')).toMatchObject({
    virtual_stages: 2,
    stage_costs: [1, 3, 1, 1],
  });
});
