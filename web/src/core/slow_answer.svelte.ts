// A question that takes seconds: asked on a thread of its own when the reader rests, given up when it
// is out of date. The old answer stays; `current` says whether it is of the question as it is now.
import { theCore } from './core';
import type { Question } from './answer.svelte';

const kRestMs = 150;

export class SlowAnswer<T> {
  value = $state.raw<T | undefined>(undefined);
  error = $state.raw<Error | undefined>(undefined);
  busy = $state(false);
  private asked = $state('');
  private answered = $state('');
  private under: AbortController | undefined; // of the question that is under way
  current = $derived(this.answered !== '' && this.answered === this.asked);

  constructor(question: () => Question) {
    $effect(() => {
      const now = question();
      const text = JSON.stringify(now) ?? '';
      this.asked = text;
      if (now === undefined || text === this.answered) {
        this.busy = false;
        return;
      }
      const stop = new AbortController();
      this.under = stop;
      this.busy = true;
      this.error = undefined;
      const timer = setTimeout(() => {
        if (!stop.signal.aborted) void this.ask(now, text, stop.signal);
      }, kRestMs);
      return () => {
        clearTimeout(timer);
        stop.abort();
      };
    });
  }

  // The reader does not wait for it.
  cancel() {
    this.under?.abort();
    this.busy = false;
    this.error = new Error('Cancelled. It is asked again when the run or the rank changes.');
  }

  private async ask([method, request]: NonNullable<Question>, text: string, signal: AbortSignal) {
    try {
      const value = await theCore().askAlone<T>(method, request, () => {}, signal);
      if (signal.aborted) return;
      this.value = value;
      this.error = undefined;
    } catch (error) {
      if (signal.aborted) return;
      this.error = error as Error;
    }
    this.answered = text;
    this.busy = false;
  }
}

export function slowAnswer<T>(question: () => Question): SlowAnswer<T> {
  return new SlowAnswer<T>(question);
}
