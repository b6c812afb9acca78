#include "plan/report/variation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/text.h"
#include "plan/report/plan_json.h"

namespace tessera {
namespace {

constexpr size_t kMostRuns = 64;

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
    return {"-", "-", "-", "-", "-", "-", "-", "-", "-", varied.refused};
  }
  const Plan& plan = *varied.plan;
  const PlannedClass& heaviest = plan.heaviest();
  const Estimate& estimate = plan.step->estimate;
  const StepTime& time = estimate.time;
  const int64_t total = heaviest.total_bytes();
  return {with_thousands(plan.mesh.world()),
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

VariedKey parse_one(const std::string& text) {
  const size_t equals = text.find('=');
  require_config(equals != text.npos && equals > 0 && equals + 1 < text.size(),
                 "--vary is {}: give a key and its values, as in --vary train.micro_batch=1,2,4",
                 in_quotes(text));
  VariedKey varied{text, std::string(trim(text.substr(0, equals))), {}};
  for (const std::string_view value : split(std::string_view(text).substr(equals + 1), ',')) {
    varied.values.emplace_back(trim(value));
  }
  return varied;
}

// The values of the run of a number: counted in digits, the last key's first.
std::vector<std::string> values_of_run(const std::vector<VariedKey>& keys, size_t number) {
  std::vector<std::string> values(keys.size());
  for (size_t k = keys.size(); k-- > 0;) {
    values[k] = keys[k].values[number % keys[k].values.size()];
    number /= keys[k].values.size();
  }
  return values;
}

}  // namespace

std::vector<VariedKey> parse_varied(const std::vector<std::string>& texts) {
  std::vector<VariedKey> keys;
  size_t runs = 1;
  for (const std::string& text : texts) {
    VariedKey varied = parse_one(text);
    for (const VariedKey& other : keys) {
      require_config(other.key != varied.key,
                     "--vary {} and --vary {} both vary {}: give its values once, as in --vary "
                     "{}={},{}",
                     other.text, text, varied.key, varied.key, other.values.front(),
                     varied.values.back());
    }
    runs *= std::min(varied.values.size(), kMostRuns + 1);
    require_config(runs <= kMostRuns, "--vary makes more than {} runs: give fewer values{}",
                   kMostRuns, keys.empty() ? "" : " or keys");
    keys.push_back(std::move(varied));
  }
  return keys;
}

Variation vary_plan(const std::vector<VariedKey>& keys, const RequestWith& request_with) {
  Variation variation;
  size_t runs = 1;
  for (const VariedKey& varied : keys) {
    variation.keys.push_back(varied.key);
    runs *= varied.values.size();
  }
  ScalePlanner planner(kMostTemplateWork);
  for (size_t number = 0; number < runs; ++number) {
    VariedRun varied{values_of_run(keys, number), std::nullopt};
    std::vector<std::string> settings;
    for (size_t k = 0; k < keys.size(); ++k) {
      settings.push_back(fmt::format("{}={}", keys[k].key, varied.values[k]));
    }
    try {
      PlanRequest request = request_with(settings);
      request.digests = false;  // a table has none
      varied.plan = make_plan(request, planner);
    } catch (const ConfigError& error) {
      varied.refused = error.what();
    }
    variation.runs.push_back(std::move(varied));
  }
  const bool any = std::any_of(variation.runs.begin(), variation.runs.end(),
                               [](const VariedRun& varied) { return varied.plan.has_value(); });
  const std::string& why = variation.runs.front().refused;
  const std::string_view flag = "--vary ";
  require_config(any, "{}{}",
                 why.starts_with(flag) ? "" : fmt::format("{}{}: ", flag, keys.front().text), why);
  return variation;
}

std::string variation_text(const Variation& variation) {
  std::vector<TextTable::Column> columns;
  for (const std::string& key : variation.keys) columns.push_back({key, Align::kLeft});
  for (const char* header : {"ranks", "sequences", "states", "the rest", "heaviest rank",
                             "of limit", "step", "exposed", "MFU"}) {
    columns.push_back({header, Align::kRight});
  }
  columns.push_back({"", Align::kLeft});
  TextTable table(std::move(columns));
  for (const VariedRun& varied : variation.runs) {
    std::vector<std::string> cells = varied.values;
    const std::vector<std::string> numbers = cells_of(varied);
    cells.insert(cells.end(), numbers.begin(), numbers.end());
    table.add_row(std::move(cells));
  }
  return table.str() +
         "sequences of a step; states: parameters, gradients and optimizer; exposed: communication "
         "that nothing hides\n";
}

nlohmann::ordered_json variation_json(const Variation& variation) {
  nlohmann::ordered_json json = {{"schema_version", kPlanSchemaVersion}, {"kind", "variation"}};
  const bool one = variation.keys.size() == 1;
  if (one) json["key"] = variation.keys.front();
  json["keys"] = variation.keys;
  json["plans"] = nlohmann::ordered_json::array();
  for (const VariedRun& varied : variation.runs) {
    nlohmann::ordered_json entry = nlohmann::ordered_json::object();
    if (one) entry["value"] = varied.values.front();
    entry["values"] = varied.values;
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
