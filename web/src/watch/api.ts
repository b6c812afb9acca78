// What the server of `tessera studio` says about runs (docs/studio.md). Addresses are relative, so
// that the page also works behind a proxy.

export interface RunEntry {
  id: string;
  name: string;
  folder: string;
  state: 'running' | 'finished' | 'failed' | 'stale';
  reason: string;
  last_step: number | null;
  steps: number | null;
  age_s: number | null;
  has: { plan?: boolean; summary?: boolean; journal?: boolean };
  plan: {
    parameters: number;
    world: number;
    mesh: Record<string, number>;
    dtype: string;
    device: string;
  } | null;
}
export interface Band {
  mean: (number | null)[];
  low?: (number | null)[];
  high?: (number | null)[];
}
export type Line = Record<string, unknown> & { step?: number; event?: string };
export interface Series {
  complete: boolean; // false: the server has not read all lines yet
  next: string;
  step: number[];
  per_point: number;
  first_step: number | null;
  last_step: number | null;
  keys: string[];
  series: Record<string, Band>;
  not_finite: { step: number; key: string; value: string }[];
  events: Line[];
  last?: Line;
}
interface Rank {
  rank: number;
  coords: Record<string, number>;
  memory_bytes: { total: number };
  traffic: unknown;
  digest?: string;
}
export interface PlannedRun {
  world: number;
  mesh: Record<string, number>;
  ranks: Rank[];
  time?: Record<string, number> & { step_s: number; exposed_s: Record<string, number> };
  rates?: { tokens_per_s: number; mfu: number };
}
export interface RunSummary {
  ranks: Rank[]; // as they were measured
  straggler?: { rank: number; more_pct: number };
}

async function json<T>(path: string): Promise<T> {
  const response = await fetch(path, { headers: { Accept: 'application/json' } });
  const type = response.headers.get('content-type') ?? '';
  if (!type.includes('json')) throw new Error(`${path}: no server of Tessera Studio answers here`);
  const body = (await response.json()) as T & { error?: { message: string } };
  if (!response.ok) throw new Error(body.error?.message ?? `${path}: ${response.status}`);
  return body;
}

const run = (id: string) => `api/runs/${encodeURIComponent(id)}`;
export const listRuns = async () => (await json<{ runs: RunEntry[] }>('api/runs')).runs;
export const planOf = (id: string) => json<PlannedRun>(`${run(id)}/plan`);
export const summaryOf = (id: string) => json<RunSummary>(`${run(id)}/summary`);
export const seriesOf = (id: string, range?: { from: number; to: number }, points = 2000) =>
  json<Series>(
    `${run(id)}/series?points=${points}${range ? `&from=${Math.floor(range.from)}&to=${Math.ceil(range.to)}` : ''}`,
  );
// What happened to the run: the last lines of its events.jsonl.
export const journalOf = (id: string) => json<{ complete: boolean; events: Line[] }>(`${run(id)}/journal`);
export const eventsUrl = (id: string, from: string) => `${run(id)}/events?from=${encodeURIComponent(from)}`;
// A page that was opened from a disk has no server to ask.
export const mayHaveServer = () => location.protocol.startsWith('http');
