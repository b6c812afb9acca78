// The answer of `placements` (docs/api.md).
export interface PlacedPart {
  axis: string;
  kind: 'split' | 'replicated' | 'partial';
  dim?: number;
}
export interface PlacedTensor {
  name: string;
  role: 'weight' | 'activation';
  shape: number[];
  local_shape: number[];
  dtype: string;
  type: string;
  parts: PlacedPart[];
  rows: number;
  cols: number;
  slices: [number, number, number, number][][]; // of each shown rank: rows and columns, from and to
}
export interface BlockOp {
  op: string;
  name: string;
  inputs: string[];
  output?: string;
  type?: string;
  sequence_parallel?: boolean;
  cast?: { axis: string; from: string; to: string; collective: string; bytes: number };
}
export interface Placements {
  ranks: number[];
  rank_coords: string[];
  tensors: PlacedTensor[];
  blocks: BlockOp[];
}
