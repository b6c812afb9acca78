#include "watch/metrics_line.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text/json.h"
#include "watch/quick_line.h"

namespace tessera {
namespace {

std::optional<double> number_of(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return kInfinity;
  if (text == "-Infinity") return -kInfinity;
  return std::nullopt;
}

void add_values(const nlohmann::json& object, const std::string& prefix, MetricsLine& line) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object() && prefix.empty()) add_values(value, key + ".", line);
    if (const auto number = number_of(value)) line.values.emplace_back(prefix + key, *number);
  }
}

}  // namespace

const double* MetricsLine::find(std::string_view key) const {
  for (const auto& [name, value] : values) {
    if (name == key) return &value;
  }
  return nullptr;
}

MetricsLine parse_metrics_line(std::string_view text) {
  if (auto line = quick_metrics_line(text)) return *std::move(line);
  nlohmann::json json;
  try {
    json = parse_json(text, "");
  } catch (const ConfigError&) {
    throw ConfigError("it is not JSON");
  }
  require_config(json.is_object(), "it is no JSON object");
  const auto step = json.find("step");
  constexpr double kMostSteps = 1e15;  // a double still counts them one by one
  require_config(step != json.end() && step->is_number_integer() && step->get<double>() >= 0 &&
                     step->get<double>() <= kMostSteps,
                 "it has no whole number \"step\"");
  MetricsLine line;
  line.step = step->get<int64_t>();
  if (const auto event = json.find("event"); event != json.end() && event->is_string()) {
    line.event = event->get<std::string>();
  }
  add_values(json, "", line);
  return line;
}

}  // namespace tessera
