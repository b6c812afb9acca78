// The calculators: one topic each. The command line, and whoever else wants one, reads its flags
// from here.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cost/explain/explanation.h"
#include "cost/explain/values.h"

namespace tessera {

struct Topic {
  std::string_view name;
  std::string_view summary;  // one sentence
  std::string_view example;  // flags
  std::span<const Parameter> parameters;
  void (*explain)(const Values& values, Explanation& result);
};

std::span<const Topic> topics();

// ConfigError with the nearest name for one that is not there.
const Topic& find_topic(std::string_view name);

Explanation explain(const Topic& topic, const GivenTexts& given, const FileReader& read = nullptr);

}  // namespace tessera
