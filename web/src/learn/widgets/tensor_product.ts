// A small product that ranks share, as the core places it.
export interface Span {
  rows: [from: number, to: number];
  cols: [from: number, to: number];
}
export interface Shard extends Span {
  rank: number;
  a: Span;
  b: Span;
  hidden?: Span & { values: number[][] };
  b2?: Span;
  result: number[][];
  partial: boolean;
}
export interface Cast {
  name: string;
  value: string;
  elements: number;
  example: { bytes: number; text: string };
}
export interface SplitProduct {
  split: string;
  ranks: number;
  heads?: number;
  a: number[][];
  b: number[][];
  hidden?: number[][];
  b2?: number[][];
  c: number[][];
  shards: Shard[];
  forward: Cast[];
  backward: Cast[];
  result: number[][];
  equal: boolean;
  collectives_forward: number;
  collectives_backward: number;
  why: string;
}
type Matrix = 'a' | 'b' | 'hidden' | 'b2';

// Where lines are drawn in a matrix that ranks hold parts of.
export function cutsOf(of: SplitProduct, name: Matrix): { cutRows: number[]; cutCols: number[] } {
  const starts = (part: 'rows' | 'cols') =>
    [...new Set(of.shards.map((shard) => shard[name]?.[part][0] ?? 0))].filter((at) => at > 0);
  return { cutRows: starts('rows'), cutCols: starts('cols') };
}

const range = (what: string, [from, to]: [number, number]) =>
  to - from === 1 ? `${what} ${from}` : `${what}s ${from} to ${to - 1}`;
function partText(name: string, part: Span | undefined, whole: number[][] | undefined): string {
  if (!part || !whole) return '';
  const rows = part.rows[1] - part.rows[0] < whole.length;
  const cols = part.cols[1] - part.cols[0] < (whole[0]?.length ?? 0);
  if (rows) return `${range('row', part.rows)} of ${name}`;
  return cols ? `${range('column', part.cols)} of ${name}` : `all of ${name}`;
}
// "columns 0 to 1 of A, rows 0 to 1 of B"
export function heldText(of: SplitProduct, shard: Shard): string {
  return [partText('A', shard.a, of.a), partText('B', shard.b, of.b), partText('B2', shard.b2, of.b2)]
    .filter((text) => text !== '')
    .join(', ');
}
