// Scratch bytes that the CUDA body of a kernel needs: base/workspace.h for the other device. Pure
// formulas, shared by the compiler (which plans them) and the bodies (which check them).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "base/workspace.h"

namespace tessera::workspace::cuda {

// Products: what cuBLASLt may use, whatever the shape.
constexpr int64_t kMatmulBytes = int64_t{32} << 20;

// Bytes of `elements` numbers of `size` bytes, up to where the next buffer begins.
constexpr int64_t buffer(int64_t elements, int64_t size) {
  return (elements * size + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
}

// Attention by cuDNN, forward: a constant, whatever the shape.
constexpr int64_t kCudnnBytes = 4096;
constexpr int64_t attention(DType type) {
  return type == DType::kBF16 || type == DType::kF16 ? kCudnnBytes : 0;
}

// Attention backward, by kernels of our own: d_o . o of every token and query head.
constexpr int64_t attention_dots(DType type, int64_t tokens, int64_t heads) {
  return buffer(tokens * heads, size_bytes(accumulate_type(type)));
}
// What cuDNN asks for besides: dk and dv of every query head where several share a kv head.
constexpr int64_t cudnn_attention_grad_bytes(int64_t tokens, int64_t heads, int64_t kv_heads,
                                             int64_t head_dim) {
  return kCudnnBytes + (heads == kv_heads ? 0 : 2 * tokens * heads * head_dim * 2);
}
// By either: cuDNN also sums dq in f32.
constexpr int64_t attention_grad(DType type, int64_t tokens, int64_t heads, int64_t kv_heads,
                                 int64_t head_dim) {
  const int64_t dots = attention_dots(type, tokens, heads);
  if (type != DType::kBF16 && type != DType::kF16) return dots;
  return dots + buffer(tokens * heads * head_dim, 4) +
         buffer(cudnn_attention_grad_bytes(tokens, heads, kv_heads, head_dim), 1);
}

// Sums of squares of several tensors: one for every so many elements of a tensor, the last ones of
// each fewer. `elements`: of all tensors.
constexpr int64_t kSquaresChunk = 32768;
constexpr int64_t sum_squares(int64_t elements, int64_t tensors) {
  return buffer(elements / kSquaresChunk + tensors, 8);
}

// What an update of AdamW knows of its step.
constexpr int64_t kAdamFactorsBytes = 128;

// Sorting by small keys: every tile of so many elements counts its keys.
constexpr int64_t kSortTile = 2048;
constexpr int64_t sort_tiles(int64_t elements) { return (elements + kSortTile - 1) / kSortTile; }

// Tokens sorted by their row: keys and tokens, twice, and the counts of the tiles.
constexpr int kEmbeddingDigitBits = 9;
constexpr int64_t embedding_dw(int64_t tokens) {
  return 4 * buffer(tokens, 4) + buffer(sort_tiles(tokens) << kEmbeddingDigitBits, 4);
}

// Sums over rows, one per column (rms_norm_dw, layer_norm_dw, bias_dw; head_norm_dw with the heads
// of all tokens as rows): so many parts of the rows are summed first. Blocks have about 64 columns,
// and 792 of them fill an H200 twice; fewer than 128 rows do not pay for a block.
constexpr int64_t column_sum_parts(int64_t rows, int64_t width) {
  const int64_t strips = std::max<int64_t>(1, (width + 63) / 64);
  const int64_t wanted = std::max<int64_t>(1, 792 / strips);
  return std::min(wanted, std::max<int64_t>(1, (rows + 127) / 128));
}
// `type`: of storage. `sums`: of every column (layer_norm_dw_bias: two).
constexpr int64_t column_sums(DType type, int64_t rows, int64_t width, int64_t sums = 1) {
  return buffer(sums * column_sum_parts(rows, width) * width, size_bytes(accumulate_type(type)));
}

// Gradients of a norm in one pass (layer_norm_grad, rms_norm_grad): a thread has one pack of 16
// bytes of a row, or two of a wide one, for every row that its block walks over; 0 threads: the row
// is too wide, and the gradients are computed one after the other.
constexpr int64_t kNormGradThreads = 256;
constexpr int64_t norm_grad_threads(DType type, int64_t width) {
  const int64_t packs = std::max<int64_t>(1, width * size_bytes(type) / 16);
  const int64_t held = packs > kNormGradThreads ? 2 : 1;
  const int64_t threads = ((packs + held - 1) / held + 31) / 32 * 32;
  return threads > kNormGradThreads ? 0 : threads;
}
// Every block keeps the sums of its columns: so many parts are summed at last. 768 threads on each
// multiprocessor of an H200; at least 16 rows, so that writing and reading two parts of f32 moves
// little beside four rows of bf16.
constexpr int64_t norm_grad_parts(int64_t threads, int64_t rows) {
  return std::clamp<int64_t>(rows / 16, 1, 132 * (768 / threads));
}
constexpr int64_t norm_grad(DType type, int64_t rows, int64_t width, int64_t sums) {
  const int64_t apart = column_sums(type, rows, width, sums);
  const int64_t threads = norm_grad_threads(type, width);
  if (threads == 0) return apart;
  const int64_t parts = norm_grad_parts(threads, rows);
  return std::max(apart, buffer(sums * parts * width, size_bytes(accumulate_type(type))));
}

// Mixture of experts. Sequences of statistics are summed in chunks of a few tokens.
constexpr int64_t kStatsChunk = 32;
constexpr int64_t router_stats(int64_t sequences, int64_t tokens_per_sequence, int64_t experts) {
  const int64_t chunks = (tokens_per_sequence + kStatsChunk - 1) / kStatsChunk;
  return buffer(sequences * chunks * 2 * experts, 8);
}
// Choices (tokens x experts of a token) sorted by expert: counts of the tiles, rows of each peer.
constexpr int64_t dispatch_rows(int64_t choices, int64_t experts) {
  return buffer(sort_tiles(choices) * experts, 4) + buffer(experts, 4);
}
// Which of the rows are in use.
constexpr int64_t combine_rows_grad(int64_t rows) { return buffer(rows, 1); }
// The loss of every group of sequences.
constexpr int64_t balance_loss(int64_t sequences) { return buffer(sequences, 8); }

}  // namespace tessera::workspace::cuda
