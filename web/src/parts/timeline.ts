// How a timeline is drawn and asked. Colours are names of the palette.
import { color, sheetOf } from './canvas';

export interface Mark {
  start: number;
  end: number;
  color: string; // a token: forward, backward, wait, …
  text?: string; // in cells that are wide enough
  hatch?: boolean; // done again
}
export interface Row {
  name: string;
  marks: Mark[]; // in order of their start
  note?: string; // at the right end of the row
}
export interface At {
  row: number;
  mark: number;
}
export interface View {
  from: number;
  to: number;
}
interface Drawing {
  width: number;
  height: number;
  rowHeight: number;
  view: View;
  selected?: At;
  marked?: number; // a row
  arrows: [{ row: number; time: number }, { row: number; time: number }][];
}

const kLightFills = new Set([
  'gradients',
  'backward',
  'input-grad',
  'weight-grad',
  'activations',
  'workspace',
]);
const kLeastTextPixels = 14;

export function drawTimeline(canvas: HTMLCanvasElement, rows: Row[], drawing: Drawing) {
  const { width, height, rowHeight, view } = drawing;
  const context = sheetOf(canvas, width, height);
  if (!context) return;
  const x = (time: number) => ((time - view.from) / (view.to - view.from)) * width;
  context.textBaseline = 'middle';
  rows.forEach((row, i) => {
    const top = i * rowHeight + 1;
    const size = rowHeight - 2;
    context.fillStyle = color('idle');
    context.fillRect(0, top, width, size);
    let drawnTo = -1;
    for (const mark of row.marks) {
      const left = x(mark.start);
      const right = x(mark.end);
      if (right < 0 || left > width || right <= drawnTo) continue;
      const wide = Math.max(right - left - (right - left > 3 ? 1 : 0), 0.75);
      context.fillStyle = color(mark.color);
      context.fillRect(left, top, wide, size);
      drawnTo = left + 0.5;
      if (mark.hatch) hatch(context, left, top, wide, size, color('surface'));
      if (mark.text && wide >= Math.max(kLeastTextPixels, mark.text.length * 7 + 2)) {
        context.fillStyle = color(kLightFills.has(mark.color) ? 'on-light-fill' : 'on-dark-fill');
        context.textAlign = 'center';
        context.fillText(mark.text, left + wide / 2, top + size / 2 + 0.5);
      }
    }
  });
  drawArrows(context, drawing, x, color('ink'));
  drawSelection(context, rows, drawing, x, color('ink'));
  if (drawing.marked !== undefined && rows.length > 1) {
    context.fillStyle = color('ink');
    for (const y of [0, rowHeight - 1.5]) context.fillRect(0, drawing.marked * rowHeight + y, width, 1.5);
    context.fillRect(0, drawing.marked * rowHeight, 3, rowHeight);
  }
}

function hatch(context: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, color: string) {
  context.save();
  context.beginPath();
  context.rect(x, y, w, h);
  context.clip();
  context.strokeStyle = color;
  context.beginPath();
  for (let at = x - h; at < x + w; at += 5) {
    context.moveTo(at, y + h);
    context.lineTo(at + h, y);
  }
  context.stroke();
  context.restore();
}

function drawArrows(
  context: CanvasRenderingContext2D,
  drawing: Drawing,
  x: (t: number) => number,
  ink: string,
) {
  const middle = (row: number) => (row + 0.5) * drawing.rowHeight;
  context.strokeStyle = ink;
  context.lineWidth = 1.5;
  for (const [from, to] of drawing.arrows) {
    context.beginPath();
    const [x0, y0] = [x(from.time), middle(from.row)];
    const [x1, y1] = [x(to.time), middle(to.row)];
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
    arrowHead(context, x1, y1, Math.atan2(y1 - y0, x1 - x0));
    context.stroke();
  }
}

function arrowHead(context: CanvasRenderingContext2D, x: number, y: number, angle: number) {
  const size = 6;
  for (const side of [-0.5, 0.5]) {
    context.moveTo(x, y);
    context.lineTo(x - size * Math.cos(angle + side), y - size * Math.sin(angle + side));
  }
}

function drawSelection(
  context: CanvasRenderingContext2D,
  rows: Row[],
  drawing: Drawing,
  x: (t: number) => number,
  ink: string,
) {
  const { selected, rowHeight } = drawing;
  const mark = selected && rows[selected.row]?.marks[selected.mark];
  if (!mark) return;
  context.strokeStyle = ink;
  context.lineWidth = 3;
  const left = x(mark.start);
  context.strokeRect(left, selected.row * rowHeight + 1.5, Math.max(3, x(mark.end) - left), rowHeight - 3);
}

// The mark under a point; the nearest of its row within four pixels.
export function markAt(rows: Row[], view: View, width: number, rowHeight: number, x: number, y: number) {
  const row = Math.floor(y / rowHeight);
  const marks = rows[row]?.marks;
  if (!marks) return undefined;
  const time = view.from + (x / width) * (view.to - view.from);
  const slack = (4 / width) * (view.to - view.from);
  let best: At | undefined;
  let nearest = slack;
  marks.forEach((mark, i) => {
    const distance = Math.max(mark.start - time, time - mark.end, 0);
    if (distance <= nearest) {
      nearest = distance;
      best = { row, mark: i };
    }
  });
  return best;
}
