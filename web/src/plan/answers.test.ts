import { expect, it } from 'vitest';
import type { Plan } from '../core/types';
import { withChosen, type Choices } from './answers';

const choices = { taken: { tp: 1, pp: 1, zero: 0, seq_len: 4096 }, tp: [1, 2] } as unknown as Choices;
const planOf = (guesses: Plan['guesses']) => ({ guesses }) as Plan;

it('shows the split that the planner chose where nobody said one', () => {
  const chosen = planOf([
    { what: 'train.dtype', taken: 'bf16' },
    {
      what: 'split',
      taken: '--tp 8 --pp 2 --pp 16 --zero 1 --sequence-parallel: the cheapest that fits: so',
    },
  ]);
  expect(withChosen(choices, chosen)).toEqual({
    taken: { tp: '8', pp: '16', zero: '1', seq_len: 4096, sequence_parallel: 'true' },
    tp: [1, 2],
  });
  expect(withChosen(choices, planOf([]))).toBe(choices);
  expect(withChosen(choices, planOf([{ what: 'split', taken: 'as it is' }]))).toBe(choices);
  expect(withChosen(choices, undefined)).toBe(choices);
  expect(withChosen(undefined, chosen)).toBeUndefined();
});
