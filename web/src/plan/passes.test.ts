import { describe, expect, it } from 'vitest';
import { asPasses, asStepPasses } from './passes';

const mark = (start: number, end: number, color: string, text = '') => ({ start, end, color, text });

describe('asPasses', () => {
  it('joins the kernels of a pass over waits too short to be seen', () => {
    const marks = [
      mark(0, 1, 'forward', 'F0'),
      mark(1, 1.1, 'wait'),
      mark(1.1, 2, 'forward', 'F0'),
      mark(2, 3, 'forward', 'F1'),
    ];
    expect(asPasses(marks, 0.5).map((m) => [m.start, m.end, m.text])).toEqual([
      [0, 2, 'F0'],
      [2, 3, 'F1'],
    ]);
  });
  it('keeps waits that are long enough, and those at the end', () => {
    const marks = [mark(0, 1, 'forward', 'F0'), mark(1, 2, 'wait'), mark(2, 3, 'forward', 'F0')];
    expect(asPasses(marks, 0.5)).toHaveLength(3);
    expect(asPasses([mark(0, 1, 'backward', 'B0'), mark(1, 1.1, 'wait')], 0.5)).toHaveLength(2);
  });
});

describe('asStepPasses', () => {
  it('takes halves of a backward that alternate for one', () => {
    const marks = [0, 1, 2, 3].map((i) =>
      mark(i, i + 1, i % 2 ? 'weight-grad' : 'input-grad', i % 2 ? 'W0' : 'I0'),
    );
    expect(asStepPasses(marks, 2)).toEqual([{ ...mark(0, 4, 'backward', 'B0') }]);
    expect(asStepPasses(marks, 0.1)).toHaveLength(4);
  });
});
