// The load-balancing loss of the router, from its statistics per sequence.
#include <algorithm>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"

namespace tessera::kernels::cpu {
namespace {

// Sequences [first, last) of one group; every row is E choices, E sums of probability, labels.
struct Group {
  const double* totals;
  const BalanceShape& shape;
  int64_t first, last;

  [[nodiscard]] double sum(int64_t column) const {
    double sum = 0;
    for (int64_t s = first; s < last; ++s) sum += totals[s * (2 * shape.experts + 1) + column];
    return sum;
  }
  // 1 / (tokens of all layers), the divisor of both means.
  [[nodiscard]] double inverse_tokens() const {
    return 1.0 / static_cast<double>((last - first) * shape.seq_len * shape.layers);
  }
  // d loss / d (sum of the probability of an expert), per unmasked label.
  [[nodiscard]] double slope(int64_t expert) const {
    return shape.coef * static_cast<double>(shape.experts) * sum(expert) * inverse_tokens() *
           inverse_tokens();
  }
  // The loss is linear in the sums of probability.
  [[nodiscard]] double loss_per_label() const {
    double loss = 0;
    for (int64_t e = 0; e < shape.experts; ++e) loss += slope(e) * sum(shape.experts + e);
    return loss;
  }
};

template <typename F>
void for_each_group(const Tensor& totals, const BalanceShape& shape, const F& f) {
  for (int64_t first = 0; first < totals.dim(0); first += shape.group) {
    f(Group{totals.as<double>(), shape, first, std::min(first + shape.group, totals.dim(0))});
  }
}

int64_t unmasked(const int32_t* labels, int64_t count) {
  return std::count_if(labels, labels + count, [](int32_t label) { return label >= 0; });
}

}  // namespace

void balance_totals(Context& ctx, const Tensor& stats, const Tensor& labels, Tensor& totals) {
  const int64_t sequences = stats.dim(0), columns = stats.dim(1);
  const int64_t length = labels.numel() / sequences;
  if (totals.data != stats.data) cpu::copy(ctx, stats, totals);
  for (int64_t s = 0; s < sequences; ++s) {
    totals.as<double>()[(s + 1) * columns - 1] =
        static_cast<double>(unmasked(labels.as<int32_t>() + s * length, length));
  }
}

void balance_loss(Context& /*ctx*/, const Tensor& totals, const Tensor& labels,
                  int64_t num_sequences, const BalanceShape& shape, Tensor& loss, bool accumulate) {
  const int64_t length = labels.numel() / num_sequences;
  double total = accumulate ? *loss.as<double>() : 0;
  for_each_group(totals, shape, [&](const Group& group) {
    const int64_t begin = std::max<int64_t>(0, group.first - shape.first_sequence);
    const int64_t end = std::min(num_sequences, group.last - shape.first_sequence);
    if (begin >= end) return;
    const int64_t mine = unmasked(labels.as<int32_t>() + begin * length, (end - begin) * length);
    total += static_cast<double>(mine) * group.loss_per_label();
  });
  *loss.as<double>() = total;
}

void balance_grad(Context& ctx, const Tensor& totals, const BalanceShape& shape, Tensor& d_totals) {
  const int64_t columns = totals.dim(1), experts = shape.experts;
  cpu::fill_zero(ctx, d_totals);
  for_each_group(totals, shape, [&](const Group& group) {
    const double labels = group.sum(2 * experts);
    for (int64_t e = 0; e < experts; ++e) {
      const double slope = labels * group.slope(e) * ctx.params->loss_scale;
      for (int64_t s = group.first; s < group.last; ++s) {
        d_totals.as<double>()[s * columns + experts + e] = slope;
      }
    }
  });
}

}  // namespace tessera::kernels::cpu
