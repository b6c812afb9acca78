// Shapes that every test of attention on the CPU computes: one key, odd sizes, and more than a
// block of queries with shared keys.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

#include "kernels/testing/test_support.h"

namespace tessera::kernels::testing {

struct AttentionCase {
  int64_t batch;
  AttentionShape shape;
};

// One key, odd sizes, more than a block of queries with shared keys; then `more`.
inline std::vector<AttentionCase> attention_cases(std::initializer_list<AttentionCase> more) {
  std::vector<AttentionCase> cases = {
      {1, {.seq_len = 1, .heads = 1, .kv_heads = 1, .head_dim = 2}},
      {3, {.seq_len = 5, .heads = 2, .kv_heads = 2, .head_dim = 3}},
      {2, {.seq_len = 67, .heads = 4, .kv_heads = 2, .head_dim = 8, .heads_per_kv = 2}}};
  cases.insert(cases.end(), more);
  return cases;
}

struct AttentionForward {
  std::vector<double> o, lse;
};

// In double precision, score by score. Every weight of a value is times factor(b, i, head, j), of
// key j for query i of sequence b.
template <typename Factor>
AttentionForward attention_reference(const Array& q, const Array& kv, const AttentionCase& c,
                                     const Factor& factor) {
  const AttentionShape& s = c.shape;
  const int64_t dim = s.head_dim, width = s.heads * dim, kv_width = 2 * s.kv_heads * dim;
  AttentionForward out{std::vector<double>(static_cast<size_t>(q.size())),
                       std::vector<double>(static_cast<size_t>(c.batch * s.seq_len * s.heads))};
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t head = s.first_head + h;
      const int64_t g = head / s.heads_per_kv - s.first_kv_head;
      for (int64_t i = 0; i < s.seq_len; ++i) {
        const int64_t row = b * s.seq_len + i;
        std::vector<double> weight;
        double sum = 0;
        const int64_t from = s.window > 0 ? std::max<int64_t>(0, i - s.window + 1) : 0;
        for (int64_t j = from; j <= i; ++j) {
          double score = 0;
          for (int64_t d = 0; d < dim; ++d) {
            score += q.get(row * width + h * dim + d) *
                     kv.get((b * s.seq_len + j) * kv_width + g * dim + d);
          }
          weight.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
          sum += weight.back();
        }
        out.lse[static_cast<size_t>(row * s.heads + h)] = std::log(sum);
        for (int64_t j = from; j <= i; ++j) {
          const double p = weight[static_cast<size_t>(j - from)] / sum * factor(b, i, head, j);
          for (int64_t d = 0; d < dim; ++d) {
            out.o[static_cast<size_t>(row * width + h * dim + d)] +=
                p * kv.get((b * s.seq_len + j) * kv_width + (s.kv_heads + g) * dim + d);
          }
        }
      }
    }
  }
  return out;
}

}  // namespace tessera::kernels::testing
