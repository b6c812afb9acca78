#include "compile/model_flops.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tessera {
namespace {

int64_t tokens_of(const RunSpec& spec) { return spec.train.global_batch * spec.train.seq_len; }

// That a token sees, on average: position p sees p + 1, or the window.
double keys_per_token(const RunSpec& spec) {
  const auto seq_len = static_cast<double>(spec.train.seq_len);
  if (spec.model.sliding_window == 0) return seq_len / 2;
  const double window = std::min(seq_len, static_cast<double>(spec.model.sliding_window));
  return window - window * window / (2 * seq_len);
}

}  // namespace

int64_t product_weights(const ModelSpec& m) {
  const int64_t q = m.heads * m.head_dim;
  const int64_t kv = m.kv_heads * m.head_dim;
  const int64_t attention = m.hidden * (q + 2 * kv) + q * m.hidden;
  const int64_t matrices = m.mlp == "swiglu" ? 3 : 2;
  int64_t mlp = matrices * m.hidden * m.ffn;
  if (m.experts > 0) {
    const int64_t width = m.moe_ffn > 0 ? m.moe_ffn : m.ffn;
    mlp = m.hidden * m.experts + m.experts_per_token * matrices * m.hidden * width;
  }
  return m.layers * (attention + mlp) + m.hidden * m.vocab;
}

ModelFlops model_flops(const RunSpec& spec) {
  const ModelSpec& m = spec.model;
  const auto tokens = static_cast<double>(tokens_of(spec));
  ModelFlops flops;
  flops.products = 6 * static_cast<double>(product_weights(m)) * tokens;
  flops.attention =
      12 * static_cast<double>(m.layers * m.heads * m.head_dim) * tokens * keys_per_token(spec);
  return flops;
}

std::string model_flops_text(const RunSpec& spec) {
  const ModelSpec& m = spec.model;
  return fmt::format(
      "6 * {} weights of products * {} tokens + 12 * {} layers * {} query columns * {} tokens * "
      "{:.6g} keys seen",
      with_thousands(product_weights(m)), with_thousands(tokens_of(spec)), m.layers,
      m.heads * m.head_dim, with_thousands(tokens_of(spec)), keys_per_token(spec));
}

}  // namespace tessera
