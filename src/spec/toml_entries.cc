#include "spec/toml_entries.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/text/toml.h"
#include "spec/toml_advice.h"
#include "spec/toml_depth.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr size_t kMaxBytes = size_t{1} << 20;

struct Placed {
  toml::source_position position;
  Entry entry;
};

// Positions either of the file, or one fixed place for values of the command line.
struct Places {
  std::string file_name;
  std::string fixed;
  [[nodiscard]] std::string at(const toml::source_region& region) const {
    if (!fixed.empty()) return fixed;
    return fmt::format("{}:{}:{}", file_name, region.begin.line, region.begin.column);
  }
};

json to_json_value(const toml::node& node, const std::string& path, const std::string& at) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* boolean = node.as_boolean()) return boolean->get();
  if (const auto* table = node.as_table()) {
    json values = json::object();
    if (is_section(path)) return values;  // its keys are entries of their own
    for (const auto& [key, child] : *table) {
      const std::string name(key.str());
      values[name] = to_json_value(child, join_path(path, name), at);
    }
    return values;
  }
  const auto* array = node.as_array();
  require_config(array != nullptr, "{}: {} is a date or time; no key takes one", at, path);
  json values = json::array();
  for (const toml::node& element : *array) values.push_back(to_json_value(element, path, at));
  return values;
}

void collect(const std::string& section, std::string_view name, const toml::node& node,
             const toml::source_region& key_region, const Places& places,
             std::vector<Placed>& out) {
  const std::string path = join_path(section, name);
  const std::string value_at = places.at(node.source());
  out.push_back({key_region.begin, Entry{section, std::string(name), places.at(key_region),
                                         value_at, to_json_value(node, path, value_at)}});
  const auto* table = node.as_table();
  if (table == nullptr || !is_section(path)) return;
  for (const auto& [key, child] : *table) {
    collect(path, key.str(), child, key.source(), places, out);
  }
}

// Tables keep their keys sorted by name; a reader expects the first mistake of the file first.
std::vector<Entry> in_file_order(std::vector<Placed> placed) {
  std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.position.line, a.position.column) <
           std::tie(b.position.line, b.position.column);
  });
  std::vector<Entry> entries;
  for (Placed& item : placed) entries.push_back(std::move(item.entry));
  return entries;
}

// The table { value = TEXT }, or nothing if TEXT is not one TOML value.
std::optional<toml::table> parse_value(std::string_view text) {
  try {
    toml::table table = toml::parse(fmt::format("value = {}", text));
    if (table.size() == 1) return table;
  } catch (const toml::parse_error&) {
    // Not TOML: the caller takes it as a bare word.
  }
  return std::nullopt;
}

}  // namespace

std::vector<Entry> entries_of_toml(std::string_view text, const std::string& file_name) {
  require_config(text.size() <= kMaxBytes, "{}: {} bytes, more than the limit of {}", file_name,
                 text.size(), kMaxBytes);
  refuse_other_formats(text, file_name);
  refuse_deep_keys(text, file_name);
  std::vector<Placed> placed;
  const Places places{file_name, ""};
  try {
    const toml::table table = toml::parse(text, file_name);
    for (const auto& [key, node] : table) {
      collect("", key.str(), node, key.source(), places, placed);
    }
  } catch (const toml::parse_error& error) {
    const std::string reason(parser_reason(error.description()));
    throw ConfigError(fmt::format("{}: {}{}", places.at(error.source()), reason,
                                  toml_advice(text, error.source().begin.line, reason)));
  }
  return in_file_order(std::move(placed));
}

std::vector<Entry> entries_of_value(const std::string& section, const std::string& name,
                                    std::string_view value, const std::string& at) {
  const std::optional<toml::table> table = parse_value(value);
  if (!table) return {Entry{section, name, at, at, std::string(value)}};
  std::vector<Placed> placed;
  const toml::node& node = *table->get("value");
  collect(section, name, node, node.source(), Places{"", at}, placed);
  return in_file_order(std::move(placed));
}

}  // namespace tessera
