#include "plan/plan_vary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "cli/read_text.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "plan/plan_request.h"

namespace tessera {
namespace {

constexpr size_t kMostValues = 64;

std::string seconds(double value) {
  return value >= 1 ? fmt::format("{:.3f} s", value) : fmt::format("{:.3f} ms", value * 1e3);
}

double exposed_seconds(const StepTime& time) {
  double sum = 0;
  for (const double seconds : time.exposed_s) sum += seconds;
  return sum;
}

// Parameters, gradients and what the optimizer keeps of them.
int64_t state_bytes(const ClassPlan& one) {
  int64_t sum = 0;
  for (const ArenaKind arena :
       {ArenaKind::kParameters, ArenaKind::kGradients, ArenaKind::kOptimizer}) {
    sum += one.memory[static_cast<size_t>(arena)];
  }
  return sum;
}

std::vector<std::string> cells_of(const VariedPlan& varied) {
  if (!varied.plan.has_value()) {
    return {varied.value, "-", "-", "-", "-", "-", "-", "-", "-", "-", varied.refused};
  }
  const RunPlan& plan = *varied.plan;
  const ClassPlan& heaviest = plan.ranks.heaviest();
  const StepTime& time = plan.estimate.time;
  const int64_t total = heaviest.total_bytes();
  const double of_limit = 100 * static_cast<double>(total) /
                          static_cast<double>(std::max<int64_t>(1, plan.limit_bytes));
  return {varied.value,
          with_thousands(plan.ranks.mesh.world()),
          with_thousands(plan.ranks.spec.train.global_batch),
          human_bytes(state_bytes(heaviest)),
          human_bytes(total - state_bytes(heaviest)),
          human_bytes(total),
          fmt::format("{:.1f} %", of_limit),
          seconds(time.step_s),
          fmt::format("{:.1f} %", 100 * exposed_seconds(time) / time.step_s),
          fmt::format("{:.1f} %", 100 * plan.estimate.mfu),
          plan.fits() ? "fits" : "does not fit"};
}

}  // namespace

Variation vary_plan(const PlanOptions& options, const std::string& text) {
  const size_t equals = text.find('=');
  require_config(equals != text.npos && equals > 0 && equals + 1 < text.size(),
                 "--vary is {}: give a key and its values, as in --vary train.micro_batch=1,2,4",
                 in_quotes(text));
  Variation variation{text.substr(0, equals), {}};
  const std::vector<std::string_view> values =
      split(std::string_view(text).substr(equals + 1), ',');
  require_config(values.size() <= kMostValues, "--vary has {} values: give at most {}",
                 values.size(), kMostValues);
  const Cluster cluster = find_cluster(options.request.cluster, read_text);
  const Engine engine = find_engine(options.request.engine, read_text);
  ScalePlanner planner;
  std::string refused;
  for (const std::string_view value : values) {
    VariedPlan varied{std::string(trim(value)), std::nullopt};
    RunSource source = options.source;
    source.overrides.push_back(fmt::format("{}={}", variation.key, varied.value));
    try {
      std::vector<Guess> guesses;
      const RunSpec spec = load_request(source, options.request, cluster, guesses);
      varied.plan = plan_run(spec, cluster, engine, planner);
    } catch (const ConfigError& error) {
      varied.refused = refused = error.what();
    }
    variation.plans.push_back(std::move(varied));
  }
  const bool any = std::any_of(variation.plans.begin(), variation.plans.end(),
                               [](const VariedPlan& varied) { return varied.plan.has_value(); });
  require_config(any, "{}", refused);
  return variation;
}

std::string variation_text(const Variation& variation) {
  TextTable table({{variation.key, Align::kLeft},
                   {"ranks", Align::kRight},
                   {"sequences", Align::kRight},
                   {"states", Align::kRight},
                   {"the rest", Align::kRight},
                   {"heaviest rank", Align::kRight},
                   {"of limit", Align::kRight},
                   {"step", Align::kRight},
                   {"exposed", Align::kRight},
                   {"MFU", Align::kRight},
                   {"", Align::kLeft}});
  for (const VariedPlan& varied : variation.plans) table.add_row(cells_of(varied));
  return table.str() +
         "sequences of a step; states: parameters, gradients and optimizer; exposed: communication "
         "that nothing hides\n";
}

nlohmann::ordered_json variation_json(const Variation& variation) {
  nlohmann::ordered_json json = {{"key", variation.key}};
  json["plans"] = nlohmann::ordered_json::array();
  for (const VariedPlan& varied : variation.plans) {
    nlohmann::ordered_json entry = {{"value", varied.value}};
    if (!varied.plan.has_value()) {
      entry["refused"] = varied.refused;
    } else {
      const RunPlan& plan = *varied.plan;
      entry["world"] = plan.ranks.mesh.world();
      entry["global_batch"] = plan.ranks.spec.train.global_batch;
      entry["fits"] = plan.fits();
      entry["state_bytes"] = state_bytes(plan.ranks.heaviest());
      entry["peak_bytes"] = plan.ranks.heaviest().total_bytes();
      entry["limit_bytes"] = plan.limit_bytes;
      entry["step_s"] = plan.estimate.time.step_s;
      entry["exposed_s"] = exposed_seconds(plan.estimate.time);
      entry["tokens_per_s"] = plan.estimate.tokens_per_s;
      entry["mfu"] = plan.estimate.mfu;
    }
    json["plans"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace tessera
