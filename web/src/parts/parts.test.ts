import { render } from '@testing-library/svelte';
import { bare, printed } from '../format/format';
import { describe, expect, it } from 'vitest';
import BarColumn from './BarColumn.svelte';
import { commandOf } from './command';
import { mathOf, piecesOf } from './math';
import { nearest, powersOfTwo } from './nearest';
import { csvOf } from './save';
import { ticksOf } from './scale';
import { markAt } from './timeline';

describe('nearest', () => {
  it('goes to the valid value that is nearest by ratio', () => {
    expect(nearest([1, 2, 4, 8], 6)).toBe(8);
    expect(nearest([1, 2, 4, 8], 5)).toBe(4);
    expect(nearest([0, 1, 2, 3], 0)).toBe(0);
    expect(powersOfTwo(2, 16)).toEqual([2, 4, 8, 16]);
  });
});

describe('numbers', () => {
  it('have no decimals that are zero on an axis', () => {
    expect(['20.0 ms', '2.500 s', '100', '0 s', '10 %', '1,000.50 GiB'].map(bare)).toEqual([
      '20 ms',
      '2.5 s',
      '100',
      '0 s',
      '10 %',
      '1,000.5 GiB',
    ]);
  });
});

describe('BarColumn', () => {
  it('puts a total near the limit into the bar, others above it', () => {
    const labelAt = (limit: number) =>
      render(BarColumn, {
        bar: {
          label: '0',
          parts: [
            { name: 'activations', color: 'activations', value: 69 },
            { name: 'workspace', color: 'workspace', value: 1 },
          ],
        },
        top: 100,
        limit,
        labelled: true,
        format: String,
      }).container.querySelector('.top-label')!.classList;
    expect(labelAt(74).contains('activations')).toBe(true);
    expect(labelAt(90).contains('above')).toBe(true);
    expect(labelAt(60).contains('above')).toBe(true);
    expect(labelAt(60).contains('over')).toBe(true);
  });
});

describe('commandOf', () => {
  it('has a flag for each key of the request', () => {
    expect(commandOf('explain', { topic: 'bubble', given: { ranks: 4, 'micro-batches': 8 } })).toBe(
      'tessera explain bubble --ranks 4 --micro-batches 8',
    );
    expect(
      commandOf('schedule', { micro_batches: 8, stage_costs: [1, 2], p2p: 0, sp: true, no: false }),
    ).toBe('tessera show schedule --micro-batches 8 --stage-costs 1,2 --p2p 0 --sp');
  });
});

describe('piecesOf', () => {
  it('breaks before signs, but not in parentheses', () => {
    expect(piecesOf('= 2 * (4 + 1) / 5 + 1 = 3 GB')).toEqual(['= 2', '* (4 + 1) / 5', '+ 1', '= 3 GB']);
  });
});

describe('mathOf', () => {
  it('draws a factor over another as a fraction, without needless parentheses', () => {
    expect(mathOf('2 (N-1)/N')).toContain(
      '<mfrac><mrow><mi>N</mi><mo stretchy="false">−</mo><mn>1</mn></mrow><mrow><mi>N</mi></mrow></mfrac>',
    );
  });
  it('takes powers before fractions, and a size with its letter as one number', () => {
    expect(mathOf('m^y / d')).toContain('<mfrac><mrow><msup>');
    expect(mathOf('(k-1) 2')).not.toContain('infix');
    expect(mathOf('= 2')).toContain('infix');
    expect(mathOf('34 s b h')).toContain('<mi>s</mi>');
    expect(mathOf('= 34 s')).toContain('<mtext>&nbsp;s</mtext>');
    expect(mathOf('70B / 80 GB')).toContain('<mn>70B</mn>');
  });
  it('reads powers of ten, roots, hours and signs', () => {
    expect(mathOf('3.645e+25 FLOP')).toContain('<msup><mn>10</mn><mn>25</mn></msup>');
    expect(mathOf('1.099e+04 s')).toContain('<mn>10,990</mn><mtext>&nbsp;s');
    expect(mathOf('2e-08')).toContain('<mn>−8</mn>');
    expect(mathOf('sqrt(2 C M)')).toContain('<msqrt><mn>2</mn>');
    expect(mathOf('= 3.052 h')).toContain('<mtext>&nbsp;h</mtext>');
    expect(mathOf('2 b s h')).toContain('<mi>h</mi>');
    expect(mathOf('w = -0.1')).toContain('form="prefix">−');
    expect(mathOf('N - 1')).not.toContain('prefix');
    expect(mathOf('ZeRO-3 = P')).toContain('ZeRO-3');
  });
  it('escapes what it is given', () => {
    expect(mathOf('a < <img>')).not.toContain('<img>');
  });
});

describe('printed', () => {
  it('has the signs of print, commas and powers of ten', () => {
    expect(printed('3.645e+25 FLOP')).toBe('3.645 · 10²⁵ FLOP');
    expect(printed('1.099e+04 s')).toBe('10,990 s');
    expect(printed('-5e-08')).toBe('−5 · 10⁻⁸');
    expect(printed('139 us of 16384')).toBe('139 µs of 16,384');
  });
});

describe('csvOf', () => {
  it('quotes what would break a row', () => {
    expect(csvOf({ columns: ['a'], rows: [['x,"y"']] })).toBe('a\n"x,""y"""\n');
  });
});

describe('ticksOf', () => {
  it('are round numbers within the range', () => {
    expect(ticksOf([0, 10], 'linear', 5)).toEqual([0, 2, 4, 6, 8, 10]);
    expect(ticksOf([0, 3], 'log', 5)).toEqual([1, 10, 100, 1000]);
  });
});

describe('markAt', () => {
  const rows = [
    {
      name: 'a',
      marks: [
        { start: 0, end: 1, color: 'forward' },
        { start: 5, end: 6, color: 'backward' },
      ],
    },
  ];
  it('finds the mark under a point, and none in a gap', () => {
    expect(markAt(rows, { from: 0, to: 10 }, 100, 18, 55, 9)).toEqual({ row: 0, mark: 1 });
    expect(markAt(rows, { from: 0, to: 10 }, 100, 18, 30, 9)).toBeUndefined();
  });
});
