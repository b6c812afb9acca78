// How a machine's ranks are laid out as tiles, and how they are drawn. Nodes are boxes in the order of
// the machine; tens of thousands of tiles are one canvas.
import { color, sheetOf } from './canvas';

export interface Layout {
  world: number;
  nodeSize: number;
  tile: number; // pixels from one tile to the next
  nodeColumns: number; // tiles of a box
  nodeRows: number;
  gap: number; // between boxes
  perRow: number; // boxes
  height: number;
}
export interface Group {
  axis: string; // a token of the palette
  ranks: number[];
}
export interface Drawing {
  shade?: readonly number[]; // of each rank, 0 to shades - 1
  shades: number;
  groups: Group[];
  selected: number;
}

const kMostHeight = 520;
const kTiles = [24, 20, 16, 13, 11, 9, 7, 6, 5, 4, 3, 2];

// The smallest divisor that makes a box at least as wide as it is high.
function boxColumns(size: number): number {
  for (let columns = Math.ceil(Math.sqrt(size)); columns < size; ++columns) {
    if (size % columns === 0) return columns;
  }
  return Math.max(1, size);
}

export function layoutOf(world: number, nodeSize: number, width: number): Layout {
  const size = Math.max(1, Math.min(nodeSize, world));
  const nodeColumns = boxColumns(size);
  const nodeRows = Math.ceil(size / nodeColumns);
  const nodes = Math.ceil(world / size);
  let layout: Layout | undefined;
  for (const tile of kTiles) {
    const gap = Math.max(2, Math.round(tile / 3));
    const perRow = Math.max(1, Math.floor((width + gap) / (nodeColumns * tile + gap)));
    const height = Math.ceil(nodes / perRow) * (nodeRows * tile + gap);
    layout = { world, nodeSize: size, tile, nodeColumns, nodeRows, gap, perRow, height };
    if (height <= kMostHeight && nodeColumns * tile <= width) break;
  }
  return layout!;
}

export function placeOf(layout: Layout, rank: number): { x: number; y: number } {
  const { nodeSize, tile, nodeColumns, nodeRows, gap, perRow } = layout;
  const node = Math.floor(rank / nodeSize);
  const local = rank % nodeSize;
  return {
    x: (node % perRow) * (nodeColumns * tile + gap) + (local % nodeColumns) * tile,
    y: Math.floor(node / perRow) * (nodeRows * tile + gap) + Math.floor(local / nodeColumns) * tile,
  };
}

export function rankAt(layout: Layout, x: number, y: number): number | undefined {
  const { nodeSize, tile, nodeColumns, nodeRows, gap, perRow, world } = layout;
  const column = Math.floor(x / (nodeColumns * tile + gap));
  const row = Math.floor(y / (nodeRows * tile + gap));
  const inColumn = Math.floor((x - column * (nodeColumns * tile + gap)) / tile);
  const inRow = Math.floor((y - row * (nodeRows * tile + gap)) / tile);
  if (x < 0 || y < 0 || column >= perRow || inColumn >= nodeColumns || inRow >= nodeRows) return undefined;
  const local = inRow * nodeColumns + inColumn;
  const rank = (row * perRow + column) * nodeSize + local;
  return local < nodeSize && rank < world ? rank : undefined;
}

const kDashes: Record<string, number[]> = {
  tp: [],
  pp: [4, 2],
  dp: [1, 2],
  fsdp: [4, 2, 1, 2],
  cp: [],
  ep: [7, 2],
};
const kLeastOutlined = 9; // smaller tiles are filled instead
const kLeastLettered = 16;

export function drawGrid(canvas: HTMLCanvasElement, width: number, layout: Layout, drawing: Drawing) {
  const context = sheetOf(canvas, width, layout.height);
  if (!context) return;
  context.drawImage(tilesOf(canvas, layout, drawing), 0, 0, width, layout.height);
  for (const group of drawing.groups) drawGroup(context, layout, group);
  drawSelected(context, layout, drawing.selected);
}

// The tiles stay what they are while the selection moves over them.
const kDrawn = new WeakMap<HTMLCanvasElement, { of: unknown[]; tiles: HTMLCanvasElement }>();
function tilesOf(canvas: HTMLCanvasElement, layout: Layout, drawing: Drawing) {
  const of = [layout, drawing.shade, drawing.shades, canvas.width, color('idle')];
  const known = kDrawn.get(canvas);
  if (known && known.of.every((part, i) => part === of[i])) return known.tiles;
  const tiles = document.createElement('canvas');
  tiles.width = canvas.width;
  tiles.height = canvas.height;
  const context = tiles.getContext('2d')!;
  const scale = globalThis.devicePixelRatio || 1;
  context.scale(scale, scale);
  drawTiles(context, layout, drawing);
  kDrawn.set(canvas, { of, tiles });
  return tiles;
}

// Neighbours of one shade are one rectangle, all of a shade are drawn at once, and the gaps between
// tiles are cut out last: a tile for itself costs ten times as much.
function drawTiles(context: CanvasRenderingContext2D, layout: Layout, drawing: Drawing) {
  const { world, nodeSize, nodeColumns, tile, gap, perRow, height } = layout;
  const shades = Math.max(1, drawing.shades);
  const shadeOf = (rank: number) => drawing.shade?.[rank] ?? 0;
  const runs: [rank: number, length: number][][] = Array.from({ length: shades }, () => []);
  for (let rank = 0; rank < world;) {
    const shade = shadeOf(rank);
    const most = Math.min(nodeColumns - ((rank % nodeSize) % nodeColumns), nodeSize - (rank % nodeSize));
    let length = 1;
    while (length < most && rank + length < world && shadeOf(rank + length) === shade) ++length;
    runs[shade]?.push([rank, length]);
    rank += length;
  }
  runs.forEach((of, shade) => {
    const dark = shades < 2 ? 0 : (75 * shade) / (shades - 1);
    context.fillStyle = `color-mix(in srgb, ${color('ink-3')} ${dark}%, ${color('idle')})`;
    for (const [rank, length] of of) {
      const { x, y } = placeOf(layout, rank);
      context.fillRect(x, y, length * tile, tile);
    }
  });
  if (tile <= 3) return;
  const box = nodeColumns * tile + gap;
  for (let i = 0; i < perRow * nodeColumns; ++i)
    context.clearRect(Math.floor(i / nodeColumns) * box + ((i % nodeColumns) + 1) * tile - 1, 0, 1, height);
  const rows = layout.nodeRows;
  for (let i = 0; i * tile < height; ++i)
    context.clearRect(
      0,
      Math.floor(i / rows) * (rows * tile + gap) + ((i % rows) + 1) * tile - 1,
      perRow * box,
      1,
    );
}

function drawGroup(context: CanvasRenderingContext2D, layout: Layout, group: Group) {
  const size = layout.tile - (layout.tile > 3 ? 1 : 0);
  context.strokeStyle = color(group.axis);
  context.fillStyle = color(group.axis);
  context.lineWidth = group.axis === 'cp' ? 3 : 2;
  context.setLineDash(kDashes[group.axis] ?? []);
  context.font = '600 12px monospace';
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  for (const rank of group.ranks) {
    const { x, y } = placeOf(layout, rank);
    if (layout.tile < kLeastOutlined) {
      context.fillRect(x, y, size, size);
      continue;
    }
    context.save();
    context.fillStyle = color('surface');
    context.fillRect(x, y, size, size);
    context.restore();
    context.strokeRect(x + 1, y + 1, size - 2, size - 2);
    if (layout.tile >= kLeastLettered) context.fillText(group.axis[0]!, x + size / 2, y + size / 2 + 0.5);
  }
  context.setLineDash([]);
}

function drawSelected(context: CanvasRenderingContext2D, layout: Layout, rank: number) {
  if (rank < 0 || rank >= layout.world) return;
  const size = layout.tile - (layout.tile > 3 ? 1 : 0);
  const { x, y } = placeOf(layout, rank);
  context.fillStyle = color('ink');
  context.fillRect(x, y, size, size);
  if (layout.tile < kLeastOutlined) {
    context.strokeStyle = color('ink');
    context.lineWidth = 2;
    context.strokeRect(x - 4, y - 4, size + 8, size + 8);
  }
}
