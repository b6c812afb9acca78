// What an engine does around the products: how many bytes its small kernels move, how many ops its
// host issues, what it keeps in memory besides tensors of the model. The numbers describe engines
// in the manner of Megatron-LM on PyTorch, with which nearly all published runs were made; programs
// of our own are priced from their instructions instead.
#pragma once

#include <cstdint>

namespace tessera::engine {

// Small kernels of one layer, forward, in passes over [tokens, hidden]: two norms, two biases with
// dropout and residual. Counted; split over tp with sequence parallelism.
inline constexpr double kHiddenPassesForward = 13;
inline constexpr double kHiddenPassesBackward = 18;
// Passes over queries, keys, values and the output of attention: rotations, transpositions.
inline constexpr double kAttentionPasses = 4;
// Passes over the rows of experts, one for each choice of a token: written in the experts' order,
// read from it. And over the tokens that are exchanged, one for each rank: written where they
// arrive, read to be ordered, and both on the way back. Counted.
inline constexpr double kExpertRowPasses = 2;
inline constexpr double kExchangedPasses = 4;
// Ring attention. Bytes per element that adding one part's result to the sum moves: the part in 16
// bits, the sum read and written in 32. Counted.
inline constexpr double kRingMergeBytes = 10;
// Keys that a kernel's start and the mask's edge cost, for every part of the keys. Default: two
// blocks of 128.
inline constexpr double kAttentionFill = 256;
// Bytes per logit that the loss moves, forward and backward, in 32 bits; a fused loss about a
// third.
inline constexpr double kLogitTrafficBytes = 24;
inline constexpr double kFusedLogitTrafficBytes = 8;
// Bytes per element that quantizing the inputs of an 8-bit product moves: read, write, transpose.
inline constexpr double kQuantizeBytes = 4;

// Ops that the host issues for one layer. Fitted to runs with tiny micro-batches.
inline constexpr double kHostOpsForward = 40;
inline constexpr double kHostOpsBackward = 60;
inline constexpr double kHostOpsExperts = 40;
// Of those that a layer with experts issues while the device waits: for the exchange. Fitted to the
// runs with experts on H100 and B200.
inline constexpr double kHostOpsWaiting = 100;
// And for each expert of a rank. Counted: two products, each with a view of the expert's rows; in 8
// bits each has its rows quantized before, in both directions, into a tensor with scales.
inline constexpr double kHostOpsPerExpert = 4;
inline constexpr double kHostOpsPerQuantizedExpert = 12;

// Bytes per weight that adding a micro-batch's gradient, in 16 bits, to the sum moves. Counted:
// both are read, the sum is written.
constexpr double accumulated_bytes(int64_t sum_bytes) {
  return 2 + 2 * static_cast<double>(sum_bytes);
}

// Of the time that communication could hide behind, what it hides behind; and what kernels lose
// while it runs beside them. Fitted.
inline constexpr double kOverlapWindow = 0.8;
inline constexpr double kOverlapSlowdown = 0.4;
// What stays exposed however long the window is: the last bucket.
inline constexpr double kLastBucket = 0.03;

// Bytes per parameter that the optimizer moves, besides the gradient: reads and writes of the
// master copy and both moments, and the new parameter.
inline constexpr double kOptimizerBytes = 32;

// Peak memory, besides parameters, gradients, states and what backward needs. In units of
// [tokens, hidden] in 16 bits; fitted to Megatron-Core runs of known bytes on B200 and H100.
inline constexpr double kTurnUnits = 2.35;      // between forward and backward of the head
inline constexpr double kExpertUnits = 3.75;    // per chosen expert, in backward of a MoE layer
inline constexpr double kBackwardUnits = 2.0;   // of a dense layer
inline constexpr int64_t kFusedLogitBytes = 2;  // alive per logit where the loss is fused
inline constexpr int64_t kLogitBytes = 5;       // otherwise; by version from 4 to 8
inline constexpr int64_t kWorkspaceBytes = 63LL << 20;

}  // namespace tessera::engine
