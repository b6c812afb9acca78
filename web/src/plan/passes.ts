// A pass is many kernels with short waits between them. At the size of a whole step they would blend
// into a colour of neither: what is too short to be seen is drawn as part of the pass around it.
import type { Mark } from '../parts/timeline';

export function asPasses(marks: readonly Mark[], shortest: number): Mark[] {
  const passes: Mark[] = [];
  let short: Mark[] = []; // since the last pass, none of them long enough to be seen
  for (const mark of marks) {
    const last = passes.at(-1);
    const same = last && last.color === mark.color && last.text === mark.text && last.hatch === mark.hatch;
    if (same && mark.start - last.end <= shortest) {
      last.end = mark.end;
      short = [];
    } else if (mark.color === 'wait' && mark.end - mark.start < shortest && last) {
      short.push(mark);
    } else {
      passes.push(...joined(short), { ...mark });
      short = [];
    }
  }
  passes.push(...joined(short));
  return passes;
}

// Schedules that do not split the backward compute both halves of every layer in turn: that is one
// backward. Where they are apart, as in zero-bubble schedules, each half is long enough to be seen.
export function asStepPasses(marks: readonly Mark[], shortest: number): Mark[] {
  const passes = asPasses(marks, shortest);
  const halves = passes.filter((mark) => mark.color === 'weight-grad');
  const mean = halves.reduce((sum, mark) => sum + mark.end - mark.start, 0) / halves.length;
  if (halves.length === 0 || mean >= 2 * shortest) return passes;
  const whole = (mark: Mark) =>
    mark.color === 'weight-grad' || mark.color === 'input-grad'
      ? { ...mark, color: 'backward', text: mark.text?.replace(/^[IW]/, 'B') }
      : mark;
  return asPasses(marks.map(whole), shortest);
}

// Waits in a row are one; alone they are too short.
function joined(waits: readonly Mark[]): Mark[] {
  const [first] = waits;
  return first ? [{ ...first, end: waits.at(-1)!.end }] : [];
}
