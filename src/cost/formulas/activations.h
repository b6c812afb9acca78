// What a block keeps for its backward pass: the terms of Korthikanti et al., "Reducing Activation
// Recomputation in Large Transformer Models" (2022), for a GPT block with 16-bit values and dropout
// masks of one byte. Our own programs keep less; a plan has their bytes.
#pragma once

namespace tessera {

struct BlockShape {
  double batch = 1;   // b, sequences of a micro-batch
  double seq = 1;     // s
  double hidden = 1;  // h
  double heads = 1;   // a
  double tp = 1;      // t
  double cp = 1;      // c: every term is of s / c tokens
};

enum class Kept { kAll, kSelective, kFull };  // what is recomputed: nothing, the core, the block

// s b h (34 + 5 a s / h); tensor parallelism divides 24 of the 34 and the core; with sequence
// parallelism it divides all. kSelective is also what a fused attention kernel keeps. kFull: the
// input of the block.
double block_bytes(const BlockShape& shape, Kept kept, bool sequence_parallel);

// The residual stream after every block: s b h values of `element` bytes.
double stream_bytes(const BlockShape& shape, double element);

// FLOPs of a step that recomputation adds, as a share of those without: one of three forward passes
// for the whole block; for the core its two products.
double extra_flops(const BlockShape& shape, Kept kept);

}  // namespace tessera
