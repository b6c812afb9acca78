#include "serve/start/rank_task.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/json.h"

namespace tessera::serve {
namespace {

// The numbers of ServeOptions by name, for both directions.
constexpr std::pair<const char*, int64_t ServeOptions::*> kNumbers[] = {
    {"tp", &ServeOptions::tp},
    {"pp", &ServeOptions::pp},
    {"ep", &ServeOptions::ep},
    {"threads", &ServeOptions::threads},
    {"max_context", &ServeOptions::max_context},
    {"page_size", &ServeOptions::page_size},
    {"num_pages", &ServeOptions::num_pages},
    {"memory_bytes", &ServeOptions::memory_bytes},
    {"max_tokens", &ServeOptions::max_tokens},
    {"max_sequences", &ServeOptions::max_sequences},
    {"max_rows", &ServeOptions::max_rows},
};

DType dtype_of(const std::string& name) {
  for (const DType type : {DType::kF64, DType::kF32, DType::kBF16}) {
    if (name == name_of(type)) return type;
  }
  throw ConfigError(fmt::format("a rank's task has the dtype '{}'", name));
}

}  // namespace

std::string task_of(const ServeOptions& options) {
  nlohmann::json json;
  json["model"] = options.model;
  json["random_model"] = options.random_model;
  json["dtype"] = name_of(options.dtype);
  json["timeout_ms"] = options.timeout.count();
  for (const auto& [name, member] : kNumbers) json[name] = options.*member;
  // A path may be any bytes; one that is no UTF-8 is refused here.
  try {
    return json.dump();
  } catch (const nlohmann::json::exception&) {
    throw ConfigError("the model's path is not UTF-8, and ranks as processes need one that is");
  }
}

ServeOptions options_of_task(const std::string& task) {
  const nlohmann::json json = parse_json(task, "the task of a rank");
  ServeOptions options;
  try {
    options.model = json.at("model").get<std::string>();
    options.random_model = json.at("random_model").get<std::string>();
    options.dtype = dtype_of(json.at("dtype").get<std::string>());
    options.timeout = std::chrono::milliseconds(json.at("timeout_ms").get<int64_t>());
    for (const auto& [name, member] : kNumbers) options.*member = json.at(name).get<int64_t>();
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError(
        fmt::format("the task of a rank is not what this program writes: {}; run "
                    "the same program on all ranks",
                    error.what()));
  }
  return options;
}

}  // namespace tessera::serve
