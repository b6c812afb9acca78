#include "base/workspace.h"

#include <algorithm>

namespace tessera::workspace {
namespace {

int64_t buffer(DType type, int64_t elements) {
  const int64_t bytes = elements * size_bytes(accumulate_type(type));
  return (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
}

// One member's blocks of an m x n product over k.
int64_t product(DType type, int64_t m, int64_t n, int64_t k) {
  const int64_t rows = std::min(m, kLinearRows);
  const int64_t cols = std::min(n, kLinearCols);
  const int64_t depth = std::min(k, kLinearDepth);
  return buffer(type, rows * depth) + buffer(type, cols * depth) + buffer(type, rows * cols);
}

}  // namespace

int64_t linear(DType type, int64_t tokens, int64_t out, int64_t in, int threads) {
  if (type == accumulate_type(type)) return 0;  // one call of the BLAS, nothing is widened
  const int64_t forward = product(type, tokens, out, in);
  const int64_t input_grad = product(type, tokens, in, out);
  const int64_t weight_grad = product(type, out, in, tokens);
  return threads * std::max({forward, input_grad, weight_grad});
}

int64_t rms_norm_dw(DType /*type*/, int64_t /*tokens*/, int64_t /*width*/, int /*threads*/) {
  return 0;
}

int64_t attention(DType type, int64_t keys, int64_t head_dim, int threads) {
  const int64_t packed = buffer(type, keys * head_dim);
  const int64_t queries = buffer(type, kQueryRows * head_dim);
  const int64_t scores = buffer(type, kQueryRows * keys);
  const int64_t sums = buffer(type, kQueryRows);
  return threads * (2 * packed + 2 * queries + scores + sums);
}

int64_t attention_grad(DType type, int64_t keys, int64_t head_dim, int threads) {
  const int64_t packed = buffer(type, keys * head_dim);
  const int64_t queries = buffer(type, kQueryRows * head_dim);
  const int64_t scores = buffer(type, kQueryRows * keys);
  const int64_t sums = buffer(type, kQueryRows);
  return threads * (5 * packed + 3 * queries + 2 * scores + sums);
}

int64_t table_grad(DType gradients, int64_t rows, int threads) {
  if (gradients == accumulate_type(gradients)) return 0;
  return threads * buffer(gradients, rows * kTableColumns);
}

int64_t sum_squares(int /*threads*/) { return kSumChunks * size_bytes(DType::kF64); }

int64_t cross_entropy_loss(int /*threads*/) { return 0; }

int64_t serve_linear(DType type, int64_t tokens, int64_t in, int64_t chunks, int threads) {
  const bool narrow = type != accumulate_type(type);
  const int64_t chunk = (in + chunks - 1) / chunks;
  const int64_t steps = (chunk + kServeStep - 1) / kServeStep;
  const int64_t packed = buffer(type, tokens * chunks * steps * kServeStep);
  const int64_t panel = narrow && tokens > kServeFewTokens ? buffer(type, kServePanelRows * in) : 0;
  const int64_t sums = buffer(type, kServePanelRows * kServeTileTokens * chunks);
  return packed + threads * (panel + sums);
}

int64_t paged_attention(DType type, int64_t head_dim, int threads) {
  constexpr int64_t kMostLanes = 16;
  const int64_t width = (head_dim + kMostLanes - 1) / kMostLanes * kMostLanes;
  const int64_t keys = buffer(type, width * kPageTile);   // and as much for values
  const int64_t rows = buffer(type, kQueryRows * width);  // queries, and what they get
  const int64_t scores = buffer(type, kQueryRows * kPageTile);
  const int64_t sums = buffer(type, kQueryRows);  // and as much for maxima
  return threads * (2 * keys + 2 * rows + scores + 2 * sums);
}

int64_t dispatch_rows(int64_t experts) { return buffer(DType::kF64, experts); }

int64_t amax(int threads) { return threads * kAlignBytes; }

int64_t fp8_numbers(DType type, int64_t elements) {
  return (elements * size_bytes(type) + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
}

int64_t fp8_linear(DType type, int64_t tokens, int64_t out, int64_t in, int threads) {
  return fp8_numbers(type, tokens * in) + fp8_numbers(type, out * in) +
         linear(type, tokens, out, in, threads);
}

int64_t fp8_linear_dx(DType type, int64_t tokens, int64_t out, int64_t in, int threads) {
  return fp8_numbers(type, tokens * out) + fp8_numbers(type, out * in) +
         linear(type, tokens, out, in, threads);
}

int64_t fp8_linear_dw(DType type, int64_t tokens, int64_t out, int64_t in, int threads) {
  return fp8_numbers(type, tokens * out) + fp8_numbers(type, tokens * in) +
         linear(type, tokens, out, in, threads);
}

}  // namespace tessera::workspace
