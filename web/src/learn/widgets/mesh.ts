// What `grid` answers, and the meshes that the lesson names.
export interface Grid {
  world: number;
  axes: { axis: string; size: number; stride: number }[];
  node_size: number;
  nodes: number;
  coords: Record<string, number[]>; // of each axis, for every rank
  rank: number;
  rank_info: {
    coords: Record<string, number>;
    node: number;
    stage: number;
    data_shard: number;
    data_shards: number;
    layers?: [from: number, to: number];
    peers: Record<string, number[]>;
    link: Record<string, string>;
  };
  warnings: string[];
}

export const kMeshes = [
  { title: '4 × 4 × 4', tp: 4, pp: 4, dp: 4, model: 'llama-3-70b' },
  { title: 'Megatron-Turing 530B: 8 × 35 × 4', tp: 8, pp: 35, dp: 4, model: 'mt-nlg-530b' },
  { title: 'Llama 3 405B: 8 × 16 × 192', tp: 8, pp: 16, dp: 192, model: 'llama-3-405b' },
  { title: 'with context: 8 × 4 × 4 × 4', tp: 8, cp: 4, pp: 4, dp: 4, model: 'llama-3-405b' },
];

// Neighbours first. ep has no place of its own: it takes ranks of tp, cp and dp.
export const kOrder = 'tp-cp-ep-dp-pp';
export const axesOf = (order: string) => order.split('-').filter((axis) => axis !== 'ep');
// The axis at this place and the next change places.
export function swapped(order: string, at: number): string {
  const axes = axesOf(order);
  [axes[at], axes[at + 1]] = [axes[at + 1]!, axes[at]!];
  axes.splice(axes.indexOf('dp'), 0, 'ep');
  return axes.join('-');
}

const kMostNamed = 16;
export function peersText(ranks: number[]): string {
  if (ranks.length <= kMostNamed) return `ranks ${ranks.join(', ')}`;
  return `ranks ${ranks.slice(0, kMostNamed - 2).join(', ')} … ${ranks.at(-1)}, ${ranks.length} in all`;
}
