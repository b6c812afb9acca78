// Marks of the core as rows of a timeline, and the colour of each pass.
import { asStepPasses } from '../plan/passes';
import type { Row } from '../parts/timeline';
import type { TimelineAnswer, TimelineClass, TimelineMark } from './types';

export const kPassColors: Record<string, string> = {
  forward: 'forward',
  backward: 'backward',
  input_grad: 'input-grad',
  weight_grad: 'weight-grad',
  recompute: 'forward',
  update: 'update',
  exposed: 'wait',
  communication: 'communication',
};

export function rowOf(name: string, marks: TimelineMark[], passes: string[], labels: string[]): Row {
  return {
    name,
    marks: marks.map(([start, end, pass, label]) => ({
      start,
      end,
      color: kPassColors[passes[pass] ?? ''] ?? 'workspace',
      hatch: passes[pass] === 'recompute',
      text: labels[label],
    })),
  };
}

// What tells the ranks of a class from others: their stage where that is all, else the first of them.
export function nameOf(one: TimelineClass, answer: TimelineAnswer): string {
  const stages = new Set(answer.classes.map((c) => c.coords.pp));
  return stages.size > 1 && stages.size === answer.classes.length
    ? `pp ${one.coords.pp}`
    : one.ranks > 1
      ? `rank ${one.rank} ×${one.ranks}`
      : `rank ${one.rank}`;
}

// One row for each class: what its compute stream does. `finest` parts of a step are told apart: what
// is shorter is drawn as part of its pass.
export function rowsOf(answer: TimelineAnswer, most: number, finest?: number): Row[] {
  return answer.classes.slice(0, most).map((one) => {
    const compute = one.rows.find((row) => row.stream === 'compute') ?? one.rows[0];
    const row = rowOf(nameOf(one, answer), compute?.marks ?? [], answer.passes, answer.labels);
    return finest ? { ...row, marks: asStepPasses(row.marks, answer.step_s / finest) } : row;
  });
}

// The class of a rank: they name their members as ranges.
export const classOf = (answer: TimelineAnswer, rank: number): number =>
  Math.max(
    0,
    answer.classes.findIndex((c) => c.members?.some(([first, last]) => first <= rank && rank <= last)),
  );

const kLegend: [string, string][] = [
  ['forward', 'forward'],
  ['backward', 'backward'],
  ['input-grad', 'input gradients'],
  ['weight-grad', 'weight gradients'],
  ['update', 'update'],
  ['wait', 'waits for communication'],
  ['communication', 'communication'],
];
const kFillOf: Record<string, string> = {
  forward: 'parameters',
  backward: 'gradients',
  'input-grad': 'gradients',
  update: 'optimizer',
  wait: 'communication',
};
// Of what is drawn, nothing else.
export function legendOf(rows: readonly Row[]): { name: string; color: string }[] {
  const marks = rows.flatMap((row) => row.marks);
  const used = new Set(marks.map((mark) => mark.color));
  const again = marks.some((mark) => mark.hatch) ? ', hatched: again' : '';
  const items = kLegend
    .filter(([color]) => used.has(color))
    .map(([color, name]) => ({
      name: color === 'forward' ? name + again : name,
      color: kFillOf[color] ?? color,
    }));
  return [...items, { name: 'idle', color: 'idle' }];
}
