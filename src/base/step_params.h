// What changes from step to step; the Program itself does not. Kernels read it from the memory of
// the device that they run on, so that a recorded step can be replayed with other numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/host_device.h"

namespace tessera {

struct StepParams {
  double lr = 0;
  int64_t step = 1;   // 1 for the first
  uint64_t seed = 0;  // of dropout
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  double momentum = 0;  // of SGD
  bool nesterov = false;
  double clip = 0;        // global norm; 0: off
  double loss_scale = 1;  // of every gradient until the update
  // A step beyond these changes nothing.
  double most_norm = std::numeric_limits<double>::infinity();
  double most_loss = std::numeric_limits<double>::infinity();  // per token
  bool evaluate = false;  // nothing is dropped, and no weight changes
};

// What a step reports, as f64: loss, tokens, tokens of the last update, then the sum of squares of
// the gradient of each bucket. One number per bucket makes the norm, which adds them up in their
// order, independent of which rank holds which bucket.
enum MetricIndex : uint8_t { kMetricLoss, kMetricTokens, kMetricUpdateTokens, kMetricsHead };

// Values that all ranks agree on after a step.
struct StepOutcome {
  double loss = 0;    // per unmasked token of the global batch
  double tokens = 0;  // unmasked
  // Tokens of the last update, which is the only one unless the schedule is asynchronous.
  double update_tokens = 0;
  double grad_norm = 0;  // before clipping
  [[nodiscard]] bool finite() const { return std::isfinite(loss) && std::isfinite(grad_norm); }
  // The gradient alone is not finite.
  [[nodiscard]] bool overflowed() const { return std::isfinite(loss) && !std::isfinite(grad_norm); }
};

TESSERA_HD inline double at_least_one(double x) { return x > 1 ? x : 1; }

TESSERA_HD inline double grad_norm_of(const double* metrics, int64_t count, double loss_scale) {
  double sum_squares = 0;
  for (int64_t i = kMetricsHead; i < count; ++i) sum_squares += metrics[i];
  return std::sqrt(sum_squares) / at_least_one(metrics[kMetricUpdateTokens]) / loss_scale;
}

inline StepOutcome outcome_of(const double* metrics, int64_t count, double loss_scale) {
  StepOutcome outcome;
  outcome.tokens = metrics[kMetricTokens];
  outcome.loss = metrics[kMetricLoss] / at_least_one(outcome.tokens);
  outcome.update_tokens = metrics[kMetricUpdateTokens];
  outcome.grad_norm = grad_norm_of(metrics, count, loss_scale);
  return outcome;
}

// Which update of a step an optimizer call makes.
struct UpdatePlace {
  int64_t update = 1, updates = 1;
};

// Buckets that one instruction of the optimizer takes at most: a table of their tensors fits in the
// parameters of a GPU's kernel.
constexpr size_t kMostGroupedBuckets = 64;

// What every optimizer takes from a step.
struct UpdateScale {
  double grad_scale = 1;  // of the sums over tokens, clipping included
  bool skip = false;      // the loss or the gradient is known not to be finite, or too large
};

// `known`: the metrics of the step, or no more than the tokens of the update (one number) where
// stages do not wait for each other.
TESSERA_HD inline UpdateScale update_scale(const StepParams& p, const double* known,
                                           int64_t count) {
  const bool norm_known = count > 1;
  const double tokens = norm_known ? known[kMetricTokens] : known[0];
  const double norm = norm_known ? grad_norm_of(known, count, p.loss_scale) : 0;
  const double loss = norm_known ? known[kMetricLoss] / at_least_one(tokens) : 0;
  // The small constant is PyTorch's: it keeps the two comparable to the last digit.
  const double wanted = p.clip / (norm + 1e-6);
  const double clip = p.clip > 0 && wanted < 1 ? wanted : 1;
  const bool finite = std::isfinite(loss) && std::isfinite(norm);
  return {clip / at_least_one(tokens) / p.loss_scale,
          p.evaluate || !finite || norm > p.most_norm || loss > p.most_loss};
}

// The numbers of one AdamW update, as the loop over the elements needs them:
//   g = grad * grad_scale;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g g
//   w = w * decay - step_size * m / (sqrt(v) * root_scale + eps)
// `decay` is that of weights that decay; for the others it is 1.
template <typename A>
struct AdamFactorsIn {
  A decay, beta1, beta2, one_minus_beta1, one_minus_beta2, step_size, root_scale, eps, grad_scale;
  bool skip;

  // In the type of the arithmetic.
  template <typename B>
  [[nodiscard]] TESSERA_HD AdamFactorsIn<B> to() const {
    return {static_cast<B>(decay),           static_cast<B>(beta1),
            static_cast<B>(beta2),           static_cast<B>(one_minus_beta1),
            static_cast<B>(one_minus_beta2), static_cast<B>(step_size),
            static_cast<B>(root_scale),      static_cast<B>(eps),
            static_cast<B>(grad_scale),      skip};
  }
};
using AdamFactors = AdamFactorsIn<double>;

TESSERA_HD inline AdamFactors adam_factors(const StepParams& p, const double* known, int64_t count,
                                           const UpdatePlace& place) {
  const UpdateScale scale = update_scale(p, known, count);
  const auto step = static_cast<double>((p.step - 1) * place.updates + place.update);
  const double correction1 = 1 - std::pow(p.beta1, step);
  const double correction2 = 1 - std::pow(p.beta2, step);
  AdamFactors f{};
  f.decay = 1 - p.lr * p.weight_decay;
  f.beta1 = p.beta1;
  f.beta2 = p.beta2;
  f.one_minus_beta1 = 1 - p.beta1;
  f.one_minus_beta2 = 1 - p.beta2;
  f.step_size = p.lr / correction1;
  f.root_scale = 1 / std::sqrt(correction2);
  f.eps = p.eps;
  f.grad_scale = scale.grad_scale;
  f.skip = scale.skip;
  return f;
}

// The numbers of one update by SGD, as PyTorch makes it:
//   g = grad * grad_scale + decay * w;  m = momentum m + g
//   w = w - step_size * (g + momentum m) with Nesterov's look ahead, else w - step_size * m
// Without momentum m is g and is not kept. `decay` of weights that do not decay is 0.
template <typename A>
struct SgdFactorsIn {
  A decay, momentum, step_size, grad_scale;
  bool nesterov, skip;

  template <typename B>
  [[nodiscard]] TESSERA_HD SgdFactorsIn<B> to() const {
    return {static_cast<B>(decay),
            static_cast<B>(momentum),
            static_cast<B>(step_size),
            static_cast<B>(grad_scale),
            nesterov,
            skip};
  }
};
using SgdFactors = SgdFactorsIn<double>;

TESSERA_HD inline SgdFactors sgd_factors(const StepParams& p, const double* known, int64_t count) {
  const UpdateScale scale = update_scale(p, known, count);
  return {p.weight_decay, p.momentum, p.lr, scale.grad_scale, p.nesterov, scale.skip};
}

}  // namespace tessera
