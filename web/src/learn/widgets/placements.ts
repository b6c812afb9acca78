// The first block of a model as the core places it on ranks: operations, what each rank holds of
// their results, and the collectives between them.
export interface Part {
  axis: string;
  kind: 'split' | 'replicated' | 'partial';
  letter: string;
  dim?: number;
}
export interface BlockOp {
  op: string;
  name: string;
  inputs: string[];
  output?: string;
  type?: string;
  parts?: Part[];
  sequence_parallel?: boolean;
  cast?: { axis: string; from: string; to: string; collective: string; bytes: number };
}
export interface Placements {
  mesh: Record<string, number>;
  blocks: BlockOp[];
}

export type Held = 'tokens' | 'columns' | 'whole' | 'partial';
export const kHeldText: Record<Held, string> = {
  tokens: 'some tokens',
  columns: 'some columns',
  whole: 'all of it',
  partial: 'a partial sum',
};
// What a rank holds of a value, by its placement on tp.
export function heldOf(op: BlockOp): Held {
  const part = op.parts?.find((one) => one.axis === 'tp');
  if (part?.kind === 'partial') return 'partial';
  if (part?.kind === 'split') return part.dim === 0 ? 'tokens' : 'columns';
  return 'whole';
}

export interface Line {
  name: string;
  held: Held;
  collective?: string; // instead of an operation
  bytes?: number;
}
const short = (name: string) => name.replace(/^layers\.\d+\./, '').replace(/[_.]/g, ' ');
// Left out: weights, which are no results, and casts that move nothing: they only say how a value is
// used next.
export function linesOf({ blocks }: Placements): Line[] {
  return blocks.flatMap((one): Line[] => {
    if (one.output === undefined || one.op === 'views') return [];
    const line = { name: short(one.name), held: heldOf(one) };
    if (one.op !== 'cast') return [line];
    if (!one.cast || one.cast.collective === 'none') return [];
    return [
      { ...line, collective: one.cast.collective.replaceAll('_', '-'), bytes: one.cast.bytes },
      line, // what it leaves
    ];
  });
}
