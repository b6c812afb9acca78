// What the lesson on pipelines asks at its end.
import type { ExerciseOf } from '../widgets/Exercise.svelte';

export const kChecks: ExerciseOf[] = [
  {
    title: 'Four stages, eight micro-batches',
    question: 'What share of the step is bubble with 1F1B, in percent?',
    unit: '%',
    topic: 'bubble',
    given: { ranks: 4, 'micro-batches': 8 },
    result: 'bubble',
    scale: 0.01,
    hint: 'P−1 turns of M + P−1 are waiting.',
  },
  {
    title: 'Eight stages, a bubble below 10 %',
    question: 'What is the least number of micro-batches?',
    unit: 'micro-batches',
    topic: 'bubble',
    given: { ranks: 8, below: '10%' },
    result: 'fewest',
    hint: '7/(M + 7) must be below one tenth. 63 gives exactly a tenth.',
    tolerance: 0,
  },
  {
    title: 'Four stages, 32 micro-batches',
    question: 'GPipe keeps how many times the activations of 1F1B on the fullest rank?',
    unit: 'times',
    topic: 'bubble',
    given: { ranks: 4, 'micro-batches': 32 },
    result: 'gpipe_over_1f1b',
    hint: 'One has all M alive, the other P.',
    tolerance: 0,
  },
  {
    title: 'One boundary',
    question:
      'Four sequences of 4,096 tokens, width 8,192, two bytes each: how many MiB does one message have?',
    unit: 'MiB',
    topic: 'pipeline',
    given: { batch: 4, seq: 4096, hidden: 8192 },
    result: 'boundary',
    scale: 2 ** 20,
    hint: 'Tokens times width times bytes; a MiB is 2^20 bytes.',
  },
  {
    title: 'Exercise: eight ranks, ZB-H1',
    question:
      'Eight ranks, 16 micro-batches, F = B = W = 1. 1F1B loses 30.4 %. How many percent does ZB-H1 lose?',
    unit: '%',
    method: 'schedule',
    given: { schedule: 'zb-h1', ranks: 8, micro_batches: 16 },
    result: 'bubble',
    scale: 0.01,
    hint: 'W fills a third of what 1F1B waits: (P−1)(F+B−W) stays. Or set the widget on top.',
  },
];
