// The map of an arena: up is address, right is time. A buffer is a rectangle from its first write to
// its last read.
import { color, sheetOf } from '../parts/canvas';
import type { Buffer } from './types';

export interface MapView {
  from: number;
  to: number;
}
export interface MapDrawing {
  width: number;
  height: number;
  bytes: number; // of the arena
  view: MapView;
  cursor: number; // time
  selected?: number; // id
}

const kGap = 0.5;

export function boxOf(buffer: Buffer, { width, height, bytes, view }: MapDrawing) {
  const x = (time: number) => ((time - view.from) / (view.to - view.from)) * width;
  const left = x(buffer.start);
  const top = height * (1 - (buffer.offset + buffer.bytes) / bytes);
  return {
    left,
    top,
    width: Math.max(x(buffer.end) - left, 1),
    height: Math.max((height * buffer.bytes) / bytes, 0.75),
  };
}

export function drawMap(canvas: HTMLCanvasElement, buffers: Buffer[], drawing: MapDrawing) {
  const context = sheetOf(canvas, drawing.width, drawing.height);
  if (!context) return;
  context.fillStyle = color('sunken');
  context.fillRect(0, 0, drawing.width, drawing.height);
  context.textBaseline = 'middle';
  for (const buffer of buffers) {
    const box = boxOf(buffer, drawing);
    if (box.left > drawing.width || box.left + box.width < 0) continue;
    context.fillStyle = color(buffer.part);
    context.fillRect(
      box.left,
      box.top + kGap / 2,
      Math.max(box.width - kGap, 0.75),
      Math.max(box.height - kGap, 0.75),
    );
    label(
      context,
      buffer,
      box,
      color(buffer.part === 'parameters' || buffer.part === 'optimizer' ? 'on-dark-fill' : 'on-light-fill'),
    );
  }
  const chosen = buffers.find((buffer) => buffer.id === drawing.selected);
  context.strokeStyle = color('ink');
  if (chosen) {
    const box = boxOf(chosen, drawing);
    context.lineWidth = 3;
    context.strokeRect(box.left, box.top, box.width, box.height);
  }
  const at = ((drawing.cursor - drawing.view.from) / (drawing.view.to - drawing.view.from)) * drawing.width;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(at, 0);
  context.lineTo(at, drawing.height);
  context.stroke();
}

function label(
  context: CanvasRenderingContext2D,
  buffer: Buffer,
  box: { left: number; top: number; width: number; height: number },
  ink: string,
) {
  const from = Math.max(box.left, 0) + 6;
  if (box.height < 13 || box.left + box.width - from < context.measureText(buffer.name).width + 6) return;
  context.fillStyle = ink;
  context.fillText(buffer.name, from, box.top + box.height / 2);
}

// The buffer under a point.
export function bufferAt(buffers: Buffer[], drawing: MapDrawing, x: number, y: number): Buffer | undefined {
  return buffers.find((buffer) => {
    const box = boxOf(buffer, drawing);
    return x >= box.left && x <= box.left + box.width && y >= box.top && y <= box.top + box.height;
  });
}

// In use at a moment: what lives then.
export const liveAt = (buffers: Buffer[], time: number) =>
  buffers.filter((buffer) => buffer.start <= time && time <= buffer.end);
