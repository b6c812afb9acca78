import { cleanup, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { url } from '../state/url.svelte';
import type { Line } from './api';
import { eventsOf, verdictOf } from './events';
import { trackOf } from './track';
import Watch from './Watch.svelte';

// A server whose numbers are its own: the page must follow it.
class StubServer {
  lines: Line[] = [];
  key = 'aaaaaaaa';
  state = 'running';
  asked: string[] = [];
  down = false;

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
            has: { plan: true, summary: this.state === 'finished' },
            plan: { world: 1, mesh: {}, parameters: 7, dtype: 'f32', device: 'cpu' },
          },
        ],
      };
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
  addEventListener() {}
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
      'verdict: rank 3 is lost; rank 3',
      'loss is NaN',
      'checkpoint: bytes 12,345, write 7.0 ms',
    ]);
    expect(eventsOf(track, 2)).toHaveLength(2);
  });
  it('mark the values of the line that ends a run at NaN', () => {
    const track = trackOf('{"step":1,"loss":1}\n{"event":"nan","step":2,"loss":"NaN"}\n');
    expect(track.notFinite).toEqual([{ step: 2, key: 'loss', value: 'NaN' }]);
    expect(eventsOf(track)).toEqual([{ step: 2, text: 'nan: loss NaN', bad: true }]);
    expect(track.read('loss', 2, String)).toBe('NaN');
    expect(track.read('loss', 1, String)).toBe('1');
  });
  it('say where a run differs from its plan', () => {
    const rank = (total: number) => ({ rank: 0, coords: {}, memory_bytes: { total }, traffic: [] });
    const plan = { world: 1, mesh: {}, ranks: [rank(5)] };
    expect(verdictOf(plan, { ranks: [rank(5)] }).bad).toBe(false);
    expect(verdictOf(plan, { ranks: [rank(6)] }).bad).toBe(true);
  });
});
