#include "plan/report/variation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "plan/report/plan_json.h"

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
int64_t state_bytes(const PlannedClass& one) {
  int64_t sum = 0;
  for (const ArenaKind arena :
       {ArenaKind::kParameters, ArenaKind::kGradients, ArenaKind::kOptimizer}) {
    sum += one.memory[static_cast<size_t>(arena)];
  }
  return sum;
}

std::vector<std::string> cells_of(const VariedRun& varied) {
  if (!varied.plan.has_value()) {
    return {varied.value, "-", "-", "-", "-", "-", "-", "-", "-", "-", varied.refused};
  }
  const Plan& plan = *varied.plan;
  const PlannedClass& heaviest = plan.heaviest();
  const Estimate& estimate = plan.step->estimate;
  const StepTime& time = estimate.time;
  const int64_t total = heaviest.total_bytes();
  return {varied.value,
          with_thousands(plan.mesh.world()),
          with_thousands(plan.spec.train.global_batch),
          human_bytes(state_bytes(heaviest)),
          human_bytes(total - state_bytes(heaviest)),
          human_bytes(total),
          percent_text(static_cast<double>(total),
                       static_cast<double>(std::max<int64_t>(1, plan.limit_bytes))),
          seconds(time.step_s),
          percent_text(exposed_seconds(time), time.step_s),
          percent_text(estimate.mfu, 1),
          plan.fits() ? "fits" : "does not fit"};
}

}  // namespace

Variation vary_plan(const std::string& text, const RequestWith& request_with) {
  const size_t equals = text.find('=');
  require_config(equals != text.npos && equals > 0 && equals + 1 < text.size(),
                 "--vary is {}: give a key and its values, as in --vary train.micro_batch=1,2,4",
                 in_quotes(text));
  Variation variation{text.substr(0, equals), {}};
  const std::vector<std::string_view> values =
      split(std::string_view(text).substr(equals + 1), ',');
  require_config(values.size() <= kMostValues, "--vary has {} values: give at most {}",
                 values.size(), kMostValues);
  ScalePlanner planner;
  std::string refused;
  for (const std::string_view value : values) {
    VariedRun varied{std::string(trim(value)), std::nullopt};
    try {
      const PlanRequest request = request_with(fmt::format("{}={}", variation.key, varied.value));
      varied.plan = make_plan(request, planner);
    } catch (const ConfigError& error) {
      varied.refused = refused = error.what();
    }
    variation.runs.push_back(std::move(varied));
  }
  const bool any = std::any_of(variation.runs.begin(), variation.runs.end(),
                               [](const VariedRun& varied) { return varied.plan.has_value(); });
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
  for (const VariedRun& varied : variation.runs) table.add_row(cells_of(varied));
  return table.str() +
         "sequences of a step; states: parameters, gradients and optimizer; exposed: communication "
         "that nothing hides\n";
}

nlohmann::ordered_json variation_json(const Variation& variation) {
  nlohmann::ordered_json json = {
      {"schema_version", kPlanSchemaVersion}, {"kind", "variation"}, {"key", variation.key}};
  json["plans"] = nlohmann::ordered_json::array();
  for (const VariedRun& varied : variation.runs) {
    nlohmann::ordered_json entry = {{"value", varied.value}};
    if (!varied.plan.has_value()) {
      entry["refused"] = varied.refused;
    } else {
      const Plan& plan = *varied.plan;
      const Estimate& estimate = plan.step->estimate;
      entry["world"] = plan.mesh.world();
      entry["global_batch"] = plan.spec.train.global_batch;
      entry["fits"] = plan.fits();
      entry["state_bytes"] = state_bytes(plan.heaviest());
      entry["peak_bytes"] = plan.peak_bytes();
      entry["limit_bytes"] = plan.limit_bytes;
      entry["step_s"] = estimate.time.step_s;
      entry["exposed_s"] = exposed_seconds(estimate.time);
      entry["tokens_per_s"] = estimate.tokens_per_s;
      entry["mfu"] = estimate.mfu;
    }
    json["plans"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace tessera
