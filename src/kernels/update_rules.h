// How an optimizer changes one weight: the same arithmetic on every device. A rule has the number
// of states that it keeps of a weight, m and then v; those that it does not keep are not touched.
#pragma once

#include <cmath>

#include "base/step_params.h"

namespace tessera::kernels {

template <typename A>
struct AdamRule {
  using Factors = AdamFactorsIn<A>;
  static constexpr int kStates = 2;

  TESSERA_HD static AdamFactors factors(const StepParams& p, const double* known, int64_t count,
                                        const UpdatePlace& place) {
    return adam_factors(p, known, count, place);
  }
  TESSERA_HD static A decay_of(const Factors& f, bool decays) { return decays ? f.decay : A{1}; }
  // The new master weight; m and v become the new ones.
  TESSERA_HD static A step(const Factors& f, A decay, A master, A& m, A& v, A grad) {
    const A g = grad * f.grad_scale;
    const A first = f.beta1 * m + f.one_minus_beta1 * g;
    const A second = f.beta2 * v + f.one_minus_beta2 * g * g;
    m = first;
    v = second;
    return master * decay - f.step_size * first / (std::sqrt(second) * f.root_scale + f.eps);
  }
};

template <typename A, bool kMomentum>
struct SgdRule {
  using Factors = SgdFactorsIn<A>;
  static constexpr int kStates = kMomentum ? 1 : 0;

  TESSERA_HD static SgdFactors factors(const StepParams& p, const double* known, int64_t count,
                                       const UpdatePlace& /*place*/) {
    return sgd_factors(p, known, count);
  }
  TESSERA_HD static A decay_of(const Factors& f, bool decays) { return decays ? f.decay : A{0}; }
  TESSERA_HD static A step(const Factors& f, A decay, A master, A& m, A& /*v*/, A grad) {
    const A g = grad * f.grad_scale + decay * master;
    if constexpr (!kMomentum) return master - f.step_size * g;
    m = f.momentum * m + g;
    return master - f.step_size * (f.nesterov ? g + f.momentum * m : m);
  }
};

}  // namespace tessera::kernels
