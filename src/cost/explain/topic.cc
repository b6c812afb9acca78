#include "cost/explain/topic.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "cost/explain/calculators.h"

namespace tessera {
namespace {

// "70" is rarely meant to be seventy parameters.
void doubt_parameters(const GivenTexts& given, Explanation& result) {
  constexpr int64_t kFewest = 10'000;
  const auto params = given.find("params");
  if (params == given.end()) return;
  const std::optional<int64_t> count = parse_count(params->second);
  if (!count.has_value() || *count >= kFewest) return;
  result.notes.insert(result.notes.begin(),
                      fmt::format("--params {0} are {1}; for billions write --params {0}B.",
                                  params->second, count_of(*count, "parameter")));
}

}  // namespace

std::span<const Topic> topics() {
  static const std::array kTopics = {
      memory_topic(),  zero_topic(),    activations_topic(), recompute_topic(), ring_topic(),
      tree_topic(),    average_topic(), accumulate_topic(),  tp_topic(),        pipeline_topic(),
      bubble_topic(),  context_topic(), flops_topic(),       cost_topic(),      roofline_topic(),
      cluster_topic(), grid_topic(),    scaling_topic(),     failures_topic()};
  return kTopics;
}

const Topic& find_topic(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Topic& topic : topics()) {
    if (topic.name == name) return topic;
    names.push_back(topic.name);
  }
  throw ConfigError(
      fmt::format("no topic {}; {}", in_quotes(name), suggestion(name, names, "topics")));
}

Explanation explain(const Topic& topic, const GivenTexts& given, const FileReader& read) {
  const Values values(topic.parameters, given, read);
  Explanation result;
  result.topic = std::string(topic.name);
  result.title = std::string(topic.summary);
  result.given = values.given();
  topic.explain(values, result);
  for (ResultLine& line : result.results) {
    if (line.numbers.empty()) line.numbers = with_numbers(line.formula, result.given);
  }
  doubt_parameters(given, result);
  return result;
}

}  // namespace tessera
