#include "train/directory/run_remarks.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text/text.h"

namespace tessera {

std::string run_remarks(const nlohmann::ordered_json& summary) {
  std::string text;
  if (const auto found = summary.find("straggler"); found != summary.end()) {
    text += fmt::format(
        "slowest rank: {} computes {:.1f} ms a step, {:.0f} % more than the median of its stage "
        "({:.1f} ms)\n",
        found->at("rank").get<int>(), found->at("compute_ms").get<double>(),
        found->at("more_pct").get<double>(), found->at("median_ms").get<double>());
  }
  if (const auto found = summary.find("out_of_time"); found != summary.end()) {
    text += fmt::format("the time was up (--max-minutes {:g}): {} of {} steps are done\n",
                        found->at("max_minutes").get<double>(),
                        with_thousands(summary.at("steps").get<int64_t>()),
                        with_thousands(found->at("planned_steps").get<int64_t>()));
  }
  return text.empty() ? text : '\n' + text;
}

}  // namespace tessera
