// One search at a time, on a thread of its own: progress, cancel, its result.
import { theCore, type Request } from '../core/core';
import type { Plan } from '../core/types';

export interface Strategy {
  tp: number;
  pp: number;
  dp: number;
  cp: number;
  ep: number;
  zero: number;
  shard: number;
  micro_batch: number;
  schedule: string;
  virtual_stages: number;
  recompute: string;
  sequence_parallel: boolean;
}
export interface Found {
  strategy: Strategy;
  peak_bytes: number;
  time: NonNullable<Plan['time']>;
  rates: NonNullable<Plan['rates']>;
}
export interface RankedPlan extends Found {
  number: number;
  why: string;
  engine_lacks: string;
  plan_flags: string;
}
export interface SearchResult {
  model: string;
  cluster: string;
  devices: number;
  configurations: number;
  priced: number;
  simulated: number;
  stopped: boolean;
  memory_limit_bytes: number;
  plans: RankedPlan[];
  pareto?: Found[];
  rejected: { reason: string; splits?: number; configurations?: number }[];
  remedies: unknown[];
  best_runnable?: RankedPlan;
}
export interface Progress {
  groups: number;
  groups_done: number;
  configurations: number;
  best_step_s: number;
}

export class Search {
  result = $state.raw<SearchResult | undefined>(undefined);
  progress = $state.raw<Progress | undefined>(undefined);
  error = $state.raw<Error | undefined>(undefined);
  running = $state(false);
  seconds = $state(0);
  private stop: AbortController | undefined;

  async start(request: Request) {
    this.cancel();
    const stop = (this.stop = new AbortController());
    this.running = true;
    this.error = undefined;
    this.progress = undefined;
    const began = performance.now();
    try {
      const result = await theCore().askAlone<SearchResult>(
        'search',
        request,
        (progress) => {
          this.progress = progress as Progress;
          this.seconds = (performance.now() - began) / 1000;
        },
        stop.signal,
      );
      if (stop.signal.aborted) return;
      this.result = result;
      this.seconds = (performance.now() - began) / 1000;
    } catch (error) {
      if (!stop.signal.aborted) this.error = error as Error;
    } finally {
      if (this.stop === stop) this.running = false;
    }
  }
  cancel() {
    this.stop?.abort();
    this.running = false;
  }
}
