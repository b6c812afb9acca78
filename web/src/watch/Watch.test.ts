import { cleanup, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { url } from '../state/url.svelte';
import type { Line } from './api';
import { eventsOf, marksOf, verdictOf } from './events';
import { trackOf } from './track';
import Watch from './Watch.svelte';

// A server whose numbers are its own: the page must follow it.
class StubServer {
  lines: Line[] = [];
  key = 'aaaaaaaa';
  state = 'running';
  asked: string[] = [];
  down = false;
  journal: Line[] = [];

  reply(path: string): unknown {
    const rank = { rank: 0, coords: { dp: 0 }, memory_bytes: { total: 1000 }, traffic: [] };
    if (path === 'api/runs')
      return {
        runs: [
          {
            id: 'a',
            name: 'a',
            folder: 'runs/a',
            state: this.state,
            reason: '',
            age_s: 0,
            last_step: this.lines.length,
            steps: 90,
            has: { plan: true, summary: this.state === 'finished', journal: this.journal.length > 0 },
            plan: { world: 1, mesh: {}, parameters: 7, dtype: 'f32', device: 'cpu' },
          },
        ],
      };
    if (path.endsWith('/journal')) return { complete: true, events: this.journal };
    if (path.endsWith('/plan'))
      return { world: 1, mesh: { dp: 1 }, ranks: [rank], time: { step_s: 0.5, exposed_s: {} } };
    if (path.endsWith('/summary')) return { ranks: [rank] };
    return {
      complete: true,
      next: `${this.lines.length}.9.${this.key}`,
      step: this.lines.map((line) => line.step),
      keys: ['loss', 'step_ms'],
      series: Object.fromEntries(
        ['loss', 'step_ms'].map((key) => [key, { mean: this.lines.map((line) => line[key]) }]),
      ),
      not_finite: [],
      events: [],
      last: this.lines.at(-1) ?? null,
    };
  }
  fetch = async (path: string) => {
    this.asked.push(path);
    if (this.down) throw new TypeError('Failed to fetch');
    const body = this.reply(path);
    return { ok: true, headers: new Headers({ 'content-type': 'application/json' }), json: async () => body };
  };
}
class StubSource {
  static readonly CLOSED = 2;
  static all: StubSource[] = [];
  readyState = 1;
  closed = false;
  onopen?: () => void;
  onerror?: () => void;
  onmessage?: (event: { data: string; lastEventId: string }) => void;
  constructor(readonly url: string) {
    StubSource.all.push(this);
  }
  readonly heard = new Map<string, (event: { data: string; lastEventId: string }) => void>();
  addEventListener(kind: string, hear: (event: { data: string; lastEventId: string }) => void) {
    this.heard.set(kind, hear);
  }
  close() {
    this.closed = true;
  }
}

const line = (step: number, loss = step) => ({ step, loss, step_ms: 400 });
const figure = (name: string) => document.querySelector(`[data-figure="${name}"]`)?.textContent?.trim();
let server: StubServer;
const source = () => StubSource.all.at(-1)!;
const send = (number: number, what: Line, key = server.key) =>
  source().onmessage!({ data: JSON.stringify(what), lastEventId: `${number}.9.${key}` });

beforeEach(() => {
  server = new StubServer();
  StubSource.all = [];
  vi.stubGlobal('fetch', server.fetch);
  vi.stubGlobal('EventSource', StubSource);
  url.set({ with: undefined, until: undefined });
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});
async function watched(steps: number) {
  for (let step = 1; step <= steps; ++step) server.lines.push(line(step));
  render(Watch);
  await waitFor(() => expect(figure('step')).toBe(`${steps} of 90`));
  await waitFor(() => expect(StubSource.all).toHaveLength(1));
}

describe('Watch', () => {
  it('shows what the server says, then every line as it comes, once', async () => {
    await watched(3);
    expect(source().url).toBe('api/runs/a/events?from=3.9.aaaaaaaa');
    send(4, line(4, 7.25));
    send(4, line(4, 7.25));
    send(3, line(3, 99));
    await waitFor(() => expect(figure('step')).toBe('4 of 90'));
    expect(figure('loss')).toBe('7.2500');
    expect(server.asked.filter((path) => path.includes('series'))).toHaveLength(1);
  });
  it('asks again where a line is missing, or is of another file', async () => {
    await watched(2);
    server.lines.push(line(3), line(4), line(5));
    send(5, line(5));
    await waitFor(() => expect(figure('step')).toBe('5 of 90'));
    server.lines = [line(1, 42)];
    server.key = 'bbbbbbbb';
    send(1, line(1, 42));
    await waitFor(() => expect(figure('loss')).toBe('42.0000'));
    expect(figure('step')).toBe('1 of 90');
  });
  it('says that the server is gone, and opens the stream anew where it was refused', async () => {
    await watched(2);
    source().onerror!();
    await waitFor(() => expect(figure('state')).toBe('reconnecting'));
    source().readyState = StubSource.CLOSED;
    send(3, line(3));
    source().onerror!();
    await waitFor(() => expect(StubSource.all).toHaveLength(2), { timeout: 3000 });
    expect(source().url).toBe('api/runs/a/events?from=3.9.aaaaaaaa');
    source().onopen!();
    await waitFor(() => expect(figure('state')).toBe('running'));
  });
  it('compares with the plan, and does not follow what has ended', async () => {
    server.state = 'finished';
    server.lines.push(line(1));
    render(Watch);
    await waitFor(() => expect(screen.getByText(/executed program equal the plan/)).toBeTruthy());
    expect(StubSource.all).toHaveLength(0);
    await waitFor(() => expect(screen.getByText('500.0 ms')).toBeTruthy()); // planned
    await waitFor(() => expect(screen.getByText('400.0 ms')).toBeTruthy()); // measured
    expect(figure('state')).toBe('finished');
  });
  it('tells what happened to the run when it happens, once, and also what it missed', async () => {
    server.journal = [{ event: 'save', step: 1, rank: 0, seconds: 0.5, time: 1794847080 }];
    await watched(3);
    await waitFor(() => expect(screen.getByText('saved, took 500.0 ms')).toBeTruthy());
    server.journal.push(
      {
        event: 'verdict',
        verdict: 'lost',
        rank: 1,
        step: 3,
        phase: 'step',
        reason: 'rank 1 (pid 9) was killed by SIGKILL',
        time: 1794847081,
      },
      { event: 'restart', rank: 1, reason: 'lost', generation: 2, restarts_left: 1, time: 1794847082 },
      { event: '<img src=x>', size: 7, time: 1794847083 },
    );
    source().heard.get('journal')!({ data: '{}', lastEventId: '' });
    source().heard.get('journal')!({ data: '{}', lastEventId: '' });
    await waitFor(() => expect(screen.getByText('<img src=x>: size 7')).toBeTruthy());
    const rows = [...document.querySelectorAll('[aria-label^="Events"] li')].map((row) =>
      row.textContent!.replace(/\s+/g, ' ').replace(/\d\d:\d\d:\d\d/, ' '),
    );
    expect(rows).toHaveLength(4);
    expect(rows[1]).toContain('step 3');
    expect(rows[1]).toContain('all ranks start again as generation 2: rank 1 lost, 1 restart left');
    expect(rows[2]).toContain('rank 1 is lost in step: was killed by SIGKILL');
    expect(document.querySelectorAll('main img')).toHaveLength(0);
  });
  it('comes up when the server does', async () => {
    server.lines.push(line(1));
    server.down = true;
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }); // it asks again every few seconds
    render(Watch);
    await vi.waitUntil(() => screen.queryByText('No server to ask for runs'));
    server.down = false;
    await vi.advanceTimersByTimeAsync(6000);
    vi.useRealTimers();
    await waitFor(() => expect(figure('step')).toBe('1 of 90'));
  });
});

describe('events', () => {
  it('are said in words, the last one first, up to the step of a replay', () => {
    const track = trackOf(
      '{"step":1,"loss":1}\n{"event":"checkpoint","step":1,"bytes":12345,"write_ms":7}\n' +
        '{"step":2,"loss":"NaN"}\n{"event":"verdict","step":3,"message":"rank 3 is lost","rank":3}\n',
    );
    expect(eventsOf(track).map((row) => row.text)).toEqual([
      'verdict: rank 3 is lost',
      'loss is NaN',
      'checkpoint: bytes 12,345, write 7.0 ms',
    ]);
    expect(eventsOf(track, 2)).toHaveLength(2);
  });
  it('mark the values of the line that ends a run at NaN', () => {
    const track = trackOf('{"step":1,"loss":1}\n{"event":"nan","step":2,"loss":"NaN"}\n');
    expect(track.notFinite).toEqual([{ step: 2, key: 'loss', value: 'NaN' }]);
    expect(eventsOf(track)).toMatchObject([{ step: 2, text: 'nan: loss NaN', bad: true }]);
    expect(track.read('loss', 2, String)).toBe('NaN');
    expect(track.read('loss', 1, String)).toBe('1');
  });
  const journal = [
    { event: 'save', step: 6, time: 10, rank: 0, seconds: 0.25 },
    { event: 'verdict', verdict: 'hung', rank: 1, seconds: 31.24, phase: 'step', step: 8, time: 11 },
    { event: 'verdict', verdict: 'constructor', rank: 1, step: 8, time: 11.5 },
    { event: 'restart', generation: 2, rank: 1, reason: 'lost', restarts_left: 2, time: 12 },
    { event: 'spare', pid: 77, rank: 1, generation: 2, time: 13 },
    { event: 'resume', step: 6, rank: 0, checkpoint: 'runs/a/checkpoints/step-6', seconds: 0.1, time: 14 },
    { event: 'save failed', step: 9, reason: 'the disk is full', time: 15 },
    {
      event: 'verdict',
      verdict: 'corrupt',
      rank: 0,
      ranks: [0, 1],
      majority: false,
      what: 'w',
      step: 9,
      time: 16,
    },
    { event: 'shrink', from: 4, to: 3, rank: 2, reason: 'no spare', time: 17 },
    { event: 'toString', time: 18, rank: 'x', ranks: 5 },
  ] as Line[];
  const told = (line: Line) => JSON.stringify(line);
  const disturbed = () =>
    trackOf(
      Array.from({ length: 10 }, (_, i) => told({ step: i + 1, loss: i === 6 ? 'NaN' : 1 })).join('\n') +
        '\n',
      journal.map(told).join('\n') + '\nno event\n[]\n',
    );
  it('of the journal are in the order of time, at the step of the one before where they name none', () => {
    const rows = eventsOf(disturbed()).reverse();
    expect(rows.map((row) => row.step)).toEqual([6, 8, 8, 8, 8, 6, 7, 9, 9, 9, 9]);
    expect(rows.map((row) => row.text)).toEqual(
      expect.arrayContaining([
        'saved, took 250.0 ms',
        'rank 1 has hung for 31.2 s in step, and all others wait for it',
        'verdict: verdict constructor',
        'all ranks start again as generation 2: rank 1 lost, 2 restarts left',
        'the spare with pid 77 is rank 1 now',
        'goes on after step 6 of runs/a/checkpoints/step-6, took 100.0 ms',
        'save failed: the disk is full',
        "ranks 0 and 1 differ in 'w'",
        'shrink: no spare; from 4, to 3',
        'toString: ranks 5',
        'loss is NaN',
      ]),
    );
    expect(rows).toHaveLength(11);
    expect(eventsOf(disturbed(), 6).map((row) => row.text)).toEqual([
      'goes on after step 6 of runs/a/checkpoints/step-6, took 100.0 ms',
      'saved, took 250.0 ms',
    ]);
  });
  it('of hosts, replicas and snapshots have sentences of their own', () => {
    const lines = [
      {
        event: 'verdict',
        verdict: 'partitioned',
        rank: 2,
        phase: 'step',
        step: 7,
        reason: 'host 1 has not been heard of for 5.0 s, and ranks 2 and 3 with it',
        time: 1,
      },
      {
        event: 'resume',
        step: 6,
        rank: 0,
        memory: true,
        seconds: 0.02,
        time: 2,
      },
      {
        event: 'shrink',
        generation: 2,
        before: 8,
        ranks: 6,
        reason: 'rank 3 is lost',
        time: 3,
      },
      { event: 'grow', generation: 3, before: 6, ranks: 8, reason: 'SIGUSR2', time: 4 },
    ] as Line[];
    const rows = eventsOf(trackOf('', lines.map(told).join('\n') + '\n')).reverse();
    expect(rows.map((row) => row.text)).toEqual([
      'rank 2 is cut off with its host in step: host 1 has not been heard of for 5.0 s, and ranks 2 and 3 with it',
      'goes on after step 6 of the snapshot in memory, took 20.0 ms',
      'goes on without lost replicas: 6 ranks instead of 8, as generation 2: rank 3 is lost',
      'grows again: 8 ranks instead of 6, as generation 3: SIGUSR2',
    ]);
    expect(rows.map((row) => row.bad)).toEqual([true, false, false, false]);
  });
  it('stand on the curves once for each step, the weightiest of it', () => {
    expect(marksOf(eventsOf(disturbed()))).toEqual([
      { step: 6, weight: 'notable', name: 'resume' },
      { step: 8, weight: 'bad', name: 'rank 1 hung' },
      { step: 9, weight: 'bad', name: 'save failed' },
    ]);
  });
  it('say where a run differs from its plan', () => {
    const rank = (total: number) => ({ rank: 0, coords: {}, memory_bytes: { total }, traffic: [] });
    const plan = { world: 1, mesh: {}, ranks: [rank(5)] };
    expect(verdictOf(plan, { ranks: [rank(5)] }).bad).toBe(false);
    expect(verdictOf(plan, { ranks: [rank(6)] }).bad).toBe(true);
  });
});
