// One step of a run. Large ones take seconds to play instruction by instruction; until that is done
// the step is shown stage by stage, which takes milliseconds.
import { answerAside } from '../core/answer.svelte';
import type { Request } from '../core/core';
import { slowAnswer } from '../core/slow_answer.svelte';
import type { TimelineAnswer } from './types';

export function stepOf(request: () => Request | undefined) {
  const asked = () => {
    const now = request();
    return now && (['timeline', now] as [string, Request]);
  };
  const played = slowAnswer<TimelineAnswer>(asked);
  const rough = answerAside<TimelineAnswer>(() => {
    const now = request();
    // Stages know neither slow nor lost ranks.
    return now && !now.slow && !now.lost ? ['timeline', { ...now, by: 'stages' }] : undefined;
  });
  const value = $derived(
    played.current || rough.error || rough.busy
      ? (played.value ?? rough.value)
      : (rough.value ?? played.value),
  );
  return {
    get value() {
      return value;
    },
    // What is shown is of the run as it is now, and as fine as it gets.
    get current() {
      return played.current;
    },
    get busy() {
      return played.busy;
    },
    get error() {
      return played.error;
    },
    cancel: () => played.cancel(),
  };
}
