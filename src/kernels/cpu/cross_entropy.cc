#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/exponentials/rows.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kStats = 3;  // max, sum of exp(x - max), logit of the label
constexpr int64_t kRowGrain = 4;

template <typename T>
void stats_row(const T* logits, int64_t valid, int64_t label_column, Acc<T>* stats) {
  using A = Acc<T>;
  const A max = largest(logits, valid);
  stats[0] = max;
  stats[1] = sum_of_exponentials(logits, valid, max);
  const bool here = label_column >= 0 && label_column < valid;
  stats[2] = here ? widen(logits[label_column]) : A{0};
}

// The parts of a split row joined: max over all, sum of exp(x - max), logit of the label.
struct Joined {
  double max, sum, label_logit;
};

template <typename A>
Joined join_parts(const A* all_stats, int64_t parts, int64_t tokens, int64_t t) {
  Joined joined{-std::numeric_limits<double>::infinity(), 0, 0};
  for (int64_t part = 0; part < parts; ++part) {
    joined.max = std::max(joined.max, static_cast<double>(all_stats[(part * tokens + t) * kStats]));
  }
  for (int64_t part = 0; part < parts; ++part) {
    const A* stats = all_stats + (part * tokens + t) * kStats;
    // A part without valid columns has max -inf and sum 0, even when every part is like that.
    if (stats[1] != A{0}) {
      joined.sum +=
          static_cast<double>(stats[1]) * std::exp(static_cast<double>(stats[0]) - joined.max);
    }
    joined.label_logit += static_cast<double>(stats[2]);
  }
  return joined;
}

template <typename T>
void grad_row(const T* logits, const Joined& row, int64_t valid, int64_t label_column, Acc<T> scale,
              T* grad) {
  using A = Acc<T>;
  const A max = static_cast<A>(row.max);
  const A inverse = static_cast<A>(static_cast<double>(scale) / row.sum);
  const bool here = label_column >= 0 && label_column < valid;
  // Read before the loop: grad may be logits.
  const A label_logit = here ? widen(logits[label_column]) : A{0};
  scaled_exponentials(logits, valid, max, inverse, grad);
  if (here) {
    grad[label_column] = narrow<T>(fast_exp(label_logit - max) * inverse - scale);
  }
}

// G of all_stats[G,T,3].
int64_t num_parts(const Tensor& all_stats, int64_t tokens) {
  return std::max<int64_t>(1, all_stats.numel() / std::max<int64_t>(1, tokens * kStats));
}

}  // namespace

void cross_entropy_stats(Context& ctx, const Tensor& logits, const Tensor& labels, Tensor& stats,
                         int64_t first_row, int64_t valid) {
  const int64_t tokens = logits.dim(0), columns = logits.dim(1);
  dispatch("cross_entropy_stats", logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, kRowGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t label = labels.as<int32_t>()[t];
        stats_row(logits.as<T>() + t * columns, valid, label < 0 ? -1 : label - first_row,
                  stats.as<Acc<T>>() + t * kStats);
      }
    });
  });
}

// On one thread: a logarithm per token is little, and the order of the sum is then fixed.
void cross_entropy_loss(Context& /*ctx*/, const Tensor& all_stats, const Tensor& labels,
                        Tensor& loss, bool accumulate) {
  const int64_t tokens = labels.numel();
  const int64_t parts = num_parts(all_stats, tokens);
  dispatch("cross_entropy_loss", all_stats.dtype, [&](auto tag) {
    using A = Acc<typename decltype(tag)::type>;
    double total = accumulate ? *loss.as<double>() : 0;
    for (int64_t t = 0; t < tokens; ++t) {
      if (labels.as<int32_t>()[t] < 0) continue;
      const Joined row = join_parts(all_stats.as<A>(), parts, tokens, t);
      total += row.max + std::log(row.sum) - row.label_logit;
    }
    *loss.as<double>() = total;
  });
}

void cross_entropy_grad(Context& ctx, const Tensor& logits, const Tensor& all_stats,
                        const Tensor& labels, Tensor& d_logits, int64_t first_row, int64_t valid) {
  const int64_t tokens = logits.dim(0), columns = logits.dim(1);
  const int64_t parts = num_parts(all_stats, tokens);
  dispatch("cross_entropy_grad", logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, kRowGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t label = labels.as<int32_t>()[t];
        T* grad = d_logits.as<T>() + t * columns;
        if (label < 0) {
          std::fill_n(grad, columns, T{});
          continue;
        }
        const Joined row = join_parts(all_stats.as<Acc<T>>(), parts, tokens, t);
        grad_row(logits.as<T>() + t * columns, row, valid, label - first_row,
                 static_cast<Acc<T>>(ctx.params->loss_scale), grad);
        std::fill(grad + valid, grad + columns, T{});
      }
    });
  });
}

}  // namespace tessera::kernels::cpu
