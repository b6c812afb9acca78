// Several questions that belong together: a curve, the parts of a bar. Their answers are put in place
// all at once, so that a picture never mixes two states.
import { theCore, type Request } from './core';

export class Answers<T> {
  values = $state.raw<T[]>([]);
  error = $state.raw<Error | undefined>(undefined);
  busy = $state(false);
  private asked = 0;
  private last = '';
  private frame = 0;

  constructor(
    questions: () => [method: string, request: Request][],
    private readonly later: boolean,
  ) {
    $effect(() => {
      const now = questions();
      const text = JSON.stringify(now);
      if (text === this.last) return;
      this.last = text;
      if (!later) return void this.ask(now);
      this.busy = true;
      cancelAnimationFrame(this.frame);
      this.frame = requestAnimationFrame(() => setTimeout(() => void this.ask(now)));
    });
  }

  private async ask(questions: [string, Request][]) {
    const mine = ++this.asked;
    this.busy = true;
    try {
      const values = await Promise.all(
        questions.map(([m, request]) => theCore().ask<T>(m, request, this.later)),
      );
      if (mine !== this.asked) return; // newer questions are under way
      this.values = values;
      this.error = undefined;
    } catch (error) {
      if (mine === this.asked) this.error = error as Error;
    } finally {
      if (mine === this.asked) this.busy = false;
    }
  }
}

// `later`: after the frame in which they changed, on a second thread, so that they hold up nothing that is
// painted then.
export function answers<T>(
  questions: () => [method: string, request: Request][],
  { later = false } = {},
): Answers<T> {
  return new Answers<T>(questions, later);
}
