#include "train/directory/run_remarks.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text/text.h"

namespace tessera {

namespace {

std::string held_out_line(const std::string& name, double loss, double perplexity) {
  return fmt::format("held out{}: loss {:.4f}, perplexity {:.2f}\n", name, loss, perplexity);
}

// A line for every set that has a name, and one for all.
std::string held_out_lines(const nlohmann::ordered_json& summary) {
  if (!summary.contains("valid_loss")) return "";
  std::string text;
  constexpr std::string_view kLoss = ".loss";
  if (const auto sets = summary.find("valid"); sets != summary.end()) {
    for (const auto& [key, value] : sets->items()) {
      if (!key.ends_with(kLoss)) continue;
      const std::string name = key.substr(0, key.size() - kLoss.size());
      text += held_out_line(", " + name, value.get<double>(),
                            sets->at(name + ".perplexity").get<double>());
    }
    if (sets->size() <= 2) return text;  // one set: it is all
  }
  return text + held_out_line(text.empty() ? "" : ", all", summary.at("valid_loss").get<double>(),
                              summary.at("valid_perplexity").get<double>());
}

}  // namespace

std::string run_remarks(const nlohmann::ordered_json& summary) {
  std::string text = held_out_lines(summary);
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
