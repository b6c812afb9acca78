// A question that is asked again whenever what it depends on changes. While the new answer is on
// its way the old one stays; after a refusal it stays as well, and `error` says why. One question is
// under way at a time, and of those that come meanwhile the newest alone is asked: a slider that
// moves faster than the core answers still paints.
import { theCore, type Request } from './core';

export type Question = [method: string, request: Request] | undefined;

export class Answer<T> {
  value = $state.raw<T | undefined>(undefined);
  error = $state.raw<Error | undefined>(undefined);
  busy = $state(false);
  private last = '';
  private next: Question;

  // `question` is called again when the state that it reads changes; undefined asks nothing.
  constructor(
    question: () => Question,
    private readonly aside = false,
  ) {
    $effect(() => {
      const now = question();
      const text = JSON.stringify(now);
      if (now === undefined || text === this.last) return;
      this.last = text;
      this.next = now;
      if (!this.busy) void this.askAll();
    });
  }

  private async askAll() {
    this.busy = true;
    while (this.next) {
      const [method, request] = this.next;
      this.next = undefined;
      try {
        this.value = await theCore().ask<T>(method, request, this.aside);
        this.error = undefined;
      } catch (error) {
        this.error = error as Error;
      }
    }
    this.busy = false;
  }
}

// In a component: const ring = answer<Explanation>(() => ['explain', { topic: 'ring', given: { ranks } }]);
export function answer<T>(question: () => Question): Answer<T> {
  return new Answer<T>(question);
}
// The same beside the others, on a second thread.
export function answerAside<T>(question: () => Question): Answer<T> {
  return new Answer<T>(question, true);
}
