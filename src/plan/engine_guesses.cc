#include "plan/engine_guesses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cost/engine/engine_keys.h"
#include "cost/step/cost_model.h"

namespace tessera {
namespace {

constexpr double kMore = 1.1;
constexpr double kLeastEffect = 1e-3;  // of the step

struct Effect {
  size_t key = 0;
  double of_step = 0;  // its change, as a share
};

}  // namespace

void add_engine_guesses(const Engine& engine, const Workload& workload, const Strategy& strategy,
                        std::vector<Guess>& guesses) {
  const double before = CostModel(workload).step_s(strategy);
  std::vector<Effect> effects;
  for (size_t i = 0; i < kEngineKeys.size(); ++i) {
    const Constant& constant = engine.constants[i];
    const bool guessed =
        constant.provenance == Provenance::kDefault || constant.provenance == Provenance::kBorrowed;
    const bool is_habit = kEngineKeys[i].unit == "0 or 1";  // has no tenth more
    if (!guessed || is_habit || constant.value == 0) continue;
    Workload changed = workload;
    double& value = changed.engine.*kEngineKeys[i].field;
    value = std::min(kMore * value, kEngineKeys[i].most);
    // A share of 1 cannot grow: see what it does the other way.
    if (value == constant.value) value = constant.value / kMore;
    const double effect = CostModel(changed).step_s(strategy) / before - 1;
    if (std::abs(effect) >= kLeastEffect) effects.push_back({i, effect});
  }
  std::stable_sort(effects.begin(), effects.end(), [](const Effect& a, const Effect& b) {
    return std::abs(a.of_step) > std::abs(b.of_step);
  });
  for (const Effect& effect : effects) {
    const EngineKey& key = kEngineKeys[effect.key];
    const Constant& constant = engine.constants[effect.key];
    guesses.push_back({fmt::format("{} of engine {}", key.name, engine.name),
                       fmt::format("{:g} {} ({}, {}); a tenth more of it: step {:+.1f} %",
                                   constant.value, key.unit, name_of(constant.provenance),
                                   constant.source, 100 * effect.of_step)});
  }
}

}  // namespace tessera
