// The router: softmax, the k best, their gates; and its statistics.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kRowGrain = 16;

template <typename T>
Acc<T> largest(const T* logits, int64_t experts) {
  Acc<T> max = widen(logits[0]);
  for (int64_t e = 1; e < experts; ++e) max = std::max(max, widen(logits[e]));
  return max;
}

template <typename T>
Acc<T> sum_of_exp(const T* logits, int64_t experts, Acc<T> max) {
  Acc<T> sum{0};
  for (int64_t e = 0; e < experts; ++e) sum += std::exp(widen(logits[e]) - max);
  return sum;
}

// Writes k different ids whatever the logits are, NaN included.
template <typename T>
void choose(const T* logits, int64_t experts, int64_t k, int32_t* ids) {
  for (int64_t j = 0; j < k; ++j) {
    int64_t best = -1;
    for (int64_t e = 0; e < experts; ++e) {
      if (std::find(ids, ids + j, static_cast<int32_t>(e)) != ids + j) continue;
      if (best < 0 || widen(logits[e]) > widen(logits[best])) best = e;
    }
    ids[j] = static_cast<int32_t>(best);
  }
}

// Probabilities divided by the sum of the chosen ones: a softmax over the chosen logits.
template <typename T>
void gate_row(const T* logits, const int32_t* ids, int64_t k, Acc<T>* gates) {
  const Acc<T> max = widen(logits[ids[0]]);
  Acc<T> sum{0};
  for (int64_t j = 0; j < k; ++j) {
    gates[j] = std::exp(widen(logits[ids[j]]) - max);
    sum += gates[j];
  }
  for (int64_t j = 0; j < k; ++j) gates[j] /= sum;
}

}  // namespace

void router(Context& ctx, const Tensor& logits, Tensor& gates, Tensor& ids) {
  const int64_t tokens = logits.dim(0), experts = logits.dim(1), k = gates.dim(1);
  dispatch("router", logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, kRowGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const T* row = logits.as<T>() + t * experts;
        int32_t* chosen = ids.as<int32_t>() + t * k;
        choose(row, experts, k, chosen);
        gate_row(row, chosen, k, gates.as<Acc<T>>() + t * k);
      }
    });
  });
}

void router_grad(Context& ctx, const Tensor& d_gates, const Tensor& gates, const Tensor& ids,
                 Tensor& d_logits, bool accumulate) {
  const int64_t tokens = gates.dim(0), k = gates.dim(1), experts = d_logits.dim(1);
  dispatch("router_grad", d_logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    ctx.workers.parallel_for(tokens, kRowGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const A* g = gates.as<A>() + t * k;
        const A* dg = d_gates.as<A>() + t * k;
        T* out = d_logits.as<T>() + t * experts;
        if (!accumulate) std::fill_n(out, experts, T{});
        A mean{0};
        for (int64_t j = 0; j < k; ++j) mean += g[j] * dg[j];
        for (int64_t j = 0; j < k; ++j) {
          T& d = out[ids.as<int32_t>()[t * k + j]];
          d = narrow<T>(widen(d) + g[j] * (dg[j] - mean));
        }
      }
    });
  });
}

// On one thread: E numbers per token are little, and the order of the sums is then fixed.
void router_stats(Context& /*ctx*/, const Tensor& logits, const Tensor& ids, const RouterRows& rows,
                  Tensor& stats, Tensor& load, bool /*accumulate*/) {
  const int64_t tokens = logits.dim(0), experts = logits.dim(1), k = ids.dim(1);
  dispatch("router_stats", logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t sequence = (rows.first_token + t) / rows.tokens_per_sequence;
      double* sums = stats.as<double>() + sequence * (2 * experts + 1);
      for (int64_t j = 0; j < k; ++j) {
        const int32_t expert = ids.as<int32_t>()[t * k + j];
        sums[expert] += 1;
        load.as<double>()[expert] += 1;
      }
      const T* row = logits.as<T>() + t * experts;
      const Acc<T> max = largest(row, experts);
      const Acc<T> inverse = Acc<T>{1} / sum_of_exp(row, experts, max);
      for (int64_t e = 0; e < experts; ++e) {
        sums[experts + e] += static_cast<double>(std::exp(widen(row[e]) - max) * inverse);
      }
    }
  });
}

void router_stats_grad(Context& ctx, const Tensor& logits, const Tensor& d_stats,
                       const RouterRows& rows, Tensor& d_logits, bool accumulate) {
  const int64_t tokens = logits.dim(0), experts = logits.dim(1);
  dispatch("router_stats_grad", logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    ctx.workers.parallel_for(tokens, kRowGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t sequence = (rows.first_token + t) / rows.tokens_per_sequence;
        const double* d = d_stats.as<double>() + sequence * (2 * experts + 1) + experts;
        const T* row = logits.as<T>() + t * experts;
        T* out = d_logits.as<T>() + t * experts;
        const A max = largest(row, experts);
        const A inverse = A{1} / sum_of_exp(row, experts, max);
        A mean{0};
        for (int64_t e = 0; e < experts; ++e) {
          mean += std::exp(widen(row[e]) - max) * inverse * static_cast<A>(d[e]);
        }
        for (int64_t e = 0; e < experts; ++e) {
          const A p = std::exp(widen(row[e]) - max) * inverse;
          const A before = accumulate ? widen(out[e]) : A{0};
          out[e] = narrow<T>(before + p * (static_cast<A>(d[e]) - mean));
        }
      }
    });
  });
}

}  // namespace tessera::kernels::cpu
