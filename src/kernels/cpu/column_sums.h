// Sums over tokens, one per column: the shape of every gradient of a vector that all tokens share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/context.h"
#include "kernels/cpu/dispatch.h"

namespace tessera::kernels::cpu {

// out[c] (+)= sum over t of term(t, c), for columns [begin, end). Sums of kTokens tokens first:
// shorter sums round less. The order of additions depends on nothing but the number of tokens.
template <typename G, typename Term>
void sum_columns(int64_t tokens, int64_t begin, int64_t end, const Term& term, G* out,
                 bool accumulate) {
  using A = Acc<G>;
  constexpr int64_t kColumns = 256, kTokens = 128;
  for (int64_t first = begin; first < end; first += kColumns) {
    const int64_t columns = std::min(kColumns, end - first);
    A total[kColumns] = {};
    for (int64_t t0 = 0; t0 < tokens; t0 += kTokens) {
      A part[kColumns] = {};
      for (int64_t t = t0; t < std::min(tokens, t0 + kTokens); ++t) {
        for (int64_t c = 0; c < columns; ++c) part[c] += term(t, first + c);
      }
      for (int64_t c = 0; c < columns; ++c) total[c] += part[c];
    }
    for (int64_t c = 0; c < columns; ++c) {
      G& to = out[first + c];
      to = narrow<G>(accumulate ? widen(to) + total[c] : total[c]);
    }
  }
}

// out[width] (+)= the sums of terms of T; out has the type of a weight gradient.
template <typename T, typename Term>
void column_sums(Context& ctx, int64_t tokens, int64_t width, const Term& term, Tensor& out,
                 bool accumulate) {
  with_gradient<T>(out, [&](auto gradient) {
    using G = typename decltype(gradient)::type;
    ctx.workers.parallel_for(width, 64, [&](int64_t begin, int64_t end) {
      sum_columns(tokens, begin, end, term, out.as<G>(), accumulate);
    });
  });
}

}  // namespace tessera::kernels::cpu
