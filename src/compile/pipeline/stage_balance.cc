#include "compile/pipeline/stage_balance.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace tessera {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// best[s][u]: the best value of cutting units u … end into s stages; choice: where the second one
// begins. `value` combines the cost of the first stage with the best value of the rest; `least` is
// at most that value, and grows with the first stage.
class Cutter {
 public:
  Cutter(std::span<const double> unit_cost, int stages)
      : units_(unit_cost.size()), stages_(static_cast<size_t>(stages)), sums_(units_ + 1, 0.0) {
    for (size_t u = 0; u < units_; ++u) sums_[u + 1] = sums_[u] + unit_cost[u];
  }

  double cut(auto&& value, auto&& least) {
    best_.assign((stages_ + 1) * (units_ + 1), kInfinity);
    choice_.assign(best_.size(), 0);
    best_[at(0, units_)] = 0;
    for (size_t s = 1; s <= stages_; ++s) {
      const size_t last = s == stages_ ? 0 : units_ - s;  // all of them begin with the first unit
      for (size_t u = 0; u <= last; ++u) {
        for (size_t next = s == 1 ? units_ : u + 1; next + s <= units_ + 1; ++next) {
          const double first = sums_[next] - sums_[u];
          if (least(first) >= best_[at(s, u)]) break;
          const double candidate = value(first, best_[at(s - 1, next)]);
          if (candidate >= best_[at(s, u)]) continue;
          best_[at(s, u)] = candidate;
          choice_[at(s, u)] = next;
        }
      }
    }
    return best_[at(stages_, 0)];
  }

  [[nodiscard]] std::vector<int> first_units() const {
    std::vector<int> first;
    size_t unit = 0;
    for (size_t s = stages_; s > 0; --s) {
      first.push_back(static_cast<int>(unit));
      unit = choice_[at(s, unit)];
    }
    TESSERA_CHECK(unit == units_, "the stages end at unit {} of {}", unit, units_);
    return first;
  }

 private:
  [[nodiscard]] size_t at(size_t stages, size_t unit) const { return stages * (units_ + 1) + unit; }

  size_t units_;
  size_t stages_;
  std::vector<double> sums_;  // of the units before
  std::vector<double> best_;
  std::vector<size_t> choice_;
};

}  // namespace

std::vector<int> balance_units(std::span<const double> unit_cost, int stages) {
  require_config(stages >= 1, "{} pipeline stages; use at least 1", stages);
  require_config(static_cast<size_t>(stages) <= unit_cost.size(),
                 "{} pipeline stages (pp * virtual_stages), but the model has {} layers, and every "
                 "stage needs one; use at most {} stages",
                 stages, unit_cost.size(), unit_cost.size());
  for (size_t u = 0; u < unit_cost.size(); ++u) {
    require_config(unit_cost[u] >= 0 && unit_cost[u] < kInfinity,
                   "the cost of layer {} is {}; use a number from 0", u, unit_cost[u]);
  }
  Cutter cutter(unit_cost, stages);
  const double most = cutter.cut([](double first, double rest) { return std::max(first, rest); },
                                 [](double first) { return first; });
  const auto square = [most](double first) { return first > most ? kInfinity : first * first; };
  cutter.cut([&](double first, double rest) { return square(first) + rest; }, square);
  return cutter.first_units();
}

std::vector<double> block_costs(const ModelSpec& model, int64_t seq_len) {
  const auto of = [](int64_t value) { return static_cast<double>(value); };
  const double hidden = of(model.hidden);
  const double query_width = of(model.heads) * of(model.head_dim);
  const double kv_width = of(model.kv_heads) * of(model.head_dim);
  const double ffn = of(model.ffn) * (model.experts > 0 ? of(model.experts_per_token) : 1.0);
  // A token sees half of the sequence on average: scores and their sum of values.
  const double attention = query_width * of(seq_len);
  const double block = hidden * (2 * query_width + 2 * kv_width + 3 * ffn) + attention;
  std::vector<double> costs(static_cast<size_t>(model.layers), block);
  if (costs.empty()) return costs;
  costs.front() += hidden;
  costs.back() += hidden * of(model.vocab);
  return costs;
}

}  // namespace tessera
