#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "spec/entry.h"
#include "spec/run_file/run_file.h"

namespace tessera {
namespace {

constexpr std::string_view kAt = "resolved run";

void collect(const std::string& section, const nlohmann::json& table, std::vector<Entry>& out) {
  for (const auto& [name, value] : table.items()) {
    const std::string path = join_path(section, name);
    out.push_back({section, name, std::string(kAt), std::string(kAt), value});
    if (value.is_object() && is_section(path)) collect(path, value, out);
  }
}

nlohmann::ordered_json::json_pointer pointer_to(const Key& key) {
  nlohmann::ordered_json::json_pointer pointer;
  for (const std::string_view part : split(key.section, '.')) pointer /= std::string(part);
  return pointer / std::string(key.name);
}

}  // namespace

nlohmann::ordered_json to_json(const RunSpec& spec) {
  RunSpec copy = spec;  // fields are reached through mutable pointers
  nlohmann::ordered_json result = nlohmann::ordered_json::object();
  for (const Key& key : run_keys()) result[pointer_to(key)] = value_of(key.field(copy));
  return result;
}

RunSpec run_spec_from_json(const nlohmann::json& json) {
  require_config(json.is_object(), "{}: expected an object with sections, got {}", kAt,
                 json.type_name());
  std::vector<Entry> entries;
  collect("", json, entries);
  RunSpec spec;
  apply(entries, spec, Ranges::kIgnore);
  return spec;
}

}  // namespace tessera
