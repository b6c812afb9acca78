// How curves over steps are drawn. A canvas, because lines come while one looks; what follows the
// pointer lies above it.
import { color, sheetOf } from '../parts/canvas';
import { bare } from '../format/format';
import { ticksOf } from '../parts/scale';
import { kStrokes, type Curve } from './curves';
import type { EventMark, Weight } from './events';
import type { NotFinite } from './track';

export interface Drawing {
  width: number;
  height: number;
  curves: Curve[];
  area?: Curve; // a part of the first curve, filled
  format: (value: number) => string;
  zero?: boolean; // the scale begins at 0
  planned?: number;
  cap?: number; // what is above leaves the scale
  top?: { step: number; text: string }; // and is named
  marks: NotFinite[];
  events: EventMark[];
  named?: boolean; // their names stand beside their lines
}
type Range = [low: number, high: number];
// The plane inside the axes, in pixels and in what they mean.
export interface Plane {
  left: number;
  top: number;
  right: number;
  bottom: number;
  steps: Range;
  values: Range;
}

function rangeOf(columns: (readonly (number | null)[] | undefined)[]): Range | undefined {
  let [low, high] = [Infinity, -Infinity];
  for (const column of columns)
    for (const value of column ?? []) {
      if (value === null) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  return low <= high ? [low, high] : undefined;
}

export function planeOf({ width, height, curves, area, zero, planned, cap, marks }: Drawing): Plane {
  const all = area ? [...curves, area] : curves;
  const [low, high] = rangeOf(all.flatMap((curve) => [curve.values, curve.low, curve.high])) ?? [0, 1];
  const most = Math.max(Math.min(high, cap ?? high), planned ?? -Infinity);
  const least = Math.min(low, planned ?? low);
  const room = 0.05 * (most - least || Math.abs(most) || 1);
  const [first, last] = rangeOf([...all.map((curve) => curve.steps), marks.map((mark) => mark.step)]) ?? [
    0, 1,
  ];
  return {
    left: 64,
    top: 8,
    right: Math.max(width - 28, 65),
    bottom: height - 28,
    steps: first < last ? [first, last] : [first - 1, last + 1],
    values: [zero && least >= 0 ? 0 : least - room, most + room],
  };
}
const between = (value: number, [low, high]: Range) => (value - low) / (high - low);
export const xOf = (plane: Plane, step: number) =>
  plane.left + between(step, plane.steps) * (plane.right - plane.left);
export const yOf = (plane: Plane, value: number) =>
  plane.bottom - between(value, plane.values) * (plane.bottom - plane.top);
export function stepAt(plane: Plane, x: number): number {
  const share = Math.min(1, Math.max(0, (x - plane.left) / (plane.right - plane.left)));
  return plane.steps[0] + share * (plane.steps[1] - plane.steps[0]);
}
// Where a curve has its point nearest to a step.
export function nearestPoint({ steps }: Curve, step: number): number {
  let [low, high] = [0, steps.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle]! < step) low = middle + 1;
    else high = middle;
  }
  return low > 0 && step - steps[low - 1]! < steps[low]! - step ? low - 1 : low;
}

type Pen = CanvasRenderingContext2D;

// Pieces of a curve without a gap, as places in its columns.
function piecesOf({ values }: Curve): Range[] {
  const pieces: Range[] = [];
  let begin = -1;
  for (let i = 0; i <= values.length; ++i) {
    const there = (values[i] ?? null) !== null;
    if (there && begin < 0) begin = i;
    if (there || begin < 0) continue;
    pieces.push([begin, i - 1]);
    begin = -1;
  }
  return pieces;
}

function drawCurve(pen: Pen, plane: Plane, curve: Curve, fill?: string) {
  const { steps, values, low, high } = curve;
  const x = (i: number) => xOf(plane, steps[i]!);
  const line = (column: readonly (number | null)[], from: number, to: number) => {
    const by = from <= to ? 1 : -1;
    for (let i = from; i !== to + by; i += by) pen.lineTo(x(i), yOf(plane, column[i] ?? values[i]!));
  };
  for (const [from, to] of piecesOf(curve)) {
    if (low && high && !fill) {
      pen.beginPath();
      line(high, from, to);
      line(low, to, from);
      pen.fillStyle = `${color('workspace')}55`;
      pen.fill();
    }
    pen.beginPath();
    line(values, from, to);
    if (from === to) pen.lineTo(x(from) + 1, yOf(plane, values[from]!)); // alone, it is a dot
    pen.stroke();
    if (!fill) continue;
    const ground = yOf(plane, Math.max(0, plane.values[0]));
    pen.lineTo(x(to), ground);
    pen.lineTo(x(from), ground);
    pen.fillStyle = fill;
    pen.fill();
  }
}

function drawAxes(pen: Pen, plane: Plane, { width, format }: Drawing) {
  const { left, right, bottom } = plane;
  pen.fillStyle = color('ink-3');
  pen.textBaseline = 'middle';
  pen.textAlign = 'right';
  for (const tick of ticksOf(plane.values, 'linear', Math.max(2, Math.floor((bottom - plane.top) / 30)))) {
    stroke(pen, 'line', [], left, yOf(plane, tick), right, yOf(plane, tick));
    pen.fillText(bare(format(tick)), left - 8, yOf(plane, tick));
  }
  pen.textAlign = 'center';
  const most = Math.min(6, Math.max(2, Math.floor(width / 90)));
  for (const tick of ticksOf(plane.steps, 'linear', most).filter(Number.isInteger))
    pen.fillText(tick.toLocaleString('en-US'), xOf(plane, tick), bottom + 16);
}

function stroke(pen: Pen, name: string, dash: number[], ...[x0, y0, x1, y1]: number[]) {
  pen.strokeStyle = color(name);
  pen.lineWidth = 1;
  pen.setLineDash(dash);
  pen.beginPath();
  pen.moveTo(x0!, y0!);
  pen.lineTo(x1!, y1!);
  pen.stroke();
}

// What is no number stands at the axis; its word inside the frame, readable over the curves.
function drawMarks(pen: Pen, plane: Plane, marks: NotFinite[]) {
  let written = -Infinity;
  for (const { step, value } of marks) {
    const at = xOf(plane, step);
    stroke(pen, 'bad', [], at, plane.bottom - 12, at, plane.bottom);
    if (at - written < 60) continue;
    written = at;
    const half = pen.measureText(value).width / 2 + 2;
    const x = Math.min(Math.max(at, plane.left + half), plane.right - half);
    pen.fillStyle = color('surface');
    pen.fillRect(x - half, plane.bottom - 30, 2 * half, 16);
    pen.fillStyle = color('bad');
    pen.fillText(value, x, plane.bottom - 21);
  }
}

const kEventLooks: Record<Weight, [name: string, dash: number[]]> = {
  quiet: ['ink-3', []],
  notable: ['ink-3', [2, 3]],
  bad: ['bad', [2, 3]],
};
// A save is a tick at the axis, all else a line; names where they find room, failures first.
function drawEvents(pen: Pen, plane: Plane, { events, named, top }: Drawing) {
  for (const { step, weight } of events) {
    const [name, dash] = kEventLooks[weight];
    const x = xOf(plane, step);
    stroke(pen, name, dash, x, weight === 'quiet' ? plane.bottom - 6 : plane.top, x, plane.bottom);
  }
  if (!named) return;
  const taken: Range[] = [];
  const y = plane.top + (top ? 26 : 8);
  pen.textAlign = 'left';
  for (const kind of ['bad', 'notable'] as const)
    for (const { step, weight, name } of events) {
      if (weight !== kind) continue;
      const wide = pen.measureText(name).width;
      const x = xOf(plane, step);
      const begin = x + 5 + wide > plane.right ? x - wide - 5 : x + 5;
      if (begin < plane.left || taken.some(([from, to]) => begin < to + 8 && begin + wide > from - 8))
        continue;
      taken.push([begin, begin + wide]);
      pen.fillStyle = color('surface');
      pen.fillRect(begin - 2, y - 8, wide + 4, 16);
      pen.fillStyle = color(kind === 'bad' ? 'bad' : 'ink-2');
      pen.fillText(name, begin, y);
    }
  pen.textAlign = 'center';
}

export function drawChart(canvas: HTMLCanvasElement, plane: Plane, drawing: Drawing) {
  const pen = sheetOf(canvas, drawing.width, drawing.height);
  if (!pen) return;
  const { left, top, right, bottom } = plane;
  drawAxes(pen, plane, drawing);
  pen.save();
  pen.beginPath();
  pen.rect(left, top, right - left, bottom - top);
  pen.clip();
  if (drawing.area) {
    pen.strokeStyle = color('communication');
    drawCurve(pen, plane, drawing.area, color('communication'));
  }
  pen.lineWidth = 2;
  drawing.curves.forEach((curve, i) => {
    const look = kStrokes[i % kStrokes.length]!;
    pen.strokeStyle = color(look.color);
    pen.setLineDash(look.dash);
    drawCurve(pen, plane, curve);
  });
  drawEvents(pen, plane, drawing);
  if (drawing.planned !== undefined) {
    const y = yOf(plane, drawing.planned);
    stroke(pen, 'ink', [6, 4], left, y, right, y);
  }
  if (drawing.top) {
    const { step, text } = drawing.top;
    const wide = pen.measureText(text).width + 6;
    const x = xOf(plane, step) + 6;
    pen.fillStyle = color('ink-2');
    pen.textAlign = 'left';
    pen.fillText(text, x + wide > right ? x - wide - 6 : x, top + 8);
    pen.textAlign = 'center';
  }
  drawMarks(pen, plane, drawing.marks);
  pen.restore();
}
