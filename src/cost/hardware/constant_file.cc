#include "cost/hardware/constant_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text/quantity.h"
#include "base/text/text.h"
#include "spec/keys.h"
#include "spec/toml_advice.h"
#include "spec/toml_depth.h"

namespace tessera {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

// What a text says of a key: bandwidth = "400Gbps", memory_bytes = "80GB".
Unit unit_of(std::string_view key) {
  if (key.ends_with("bandwidth")) return Unit::kBytesPerSecond;
  if (key.ends_with("bytes")) return Unit::kBytes;
  return key.ends_with("_s") ? Unit::kSeconds : Unit::kCount;
}

}  // namespace

ConstantFile::ConstantFile(const CatalogueSource& source) : file_name_(source.file_name) {
  const std::string& text = source.text;
  require_config(text.size() <= kMaxFileBytes, "{}: {} bytes are more than {}", file_name_,
                 text.size(), kMaxFileBytes);
  refuse_deep_keys(text, file_name_);
  try {
    table_ = toml::parse(text, file_name_);
  } catch (const toml::parse_error& error) {
    const std::string reason(parser_reason(error.description()));
    throw ConfigError(fmt::format("{}: {}{}", at(error.source()), reason,
                                  toml_advice(text, error.source().begin.line, reason)));
  }
}

std::string ConstantFile::at(const toml::source_region& region) const {
  return fmt::format("{}:{}:{}", file_name_, region.begin.line, region.begin.column);
}

void ConstantFile::refuse_unknown(const toml::table& table,
                                  std::span<const std::string_view> known) const {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    require_config(!is_section(name),
                   "{}: [{}] belongs in a run file, and this is read as hardware or an engine",
                   at(key.source()), name);
    throw ConfigError(fmt::format("{}: unknown key {}; {}", at(key.source()), in_quotes(name),
                                  suggestion(name, known, "keys")));
  }
}

double ConstantFile::number(const toml::node& node, std::string_view key) const {
  if (node.is_string()) {
    return parse_quantity(unit_of(key), node.as_string()->get(),
                          fmt::format("{}: {}", at(node.source()), key));
  }
  const std::optional<double> value = node.value<double>();
  require_config(value.has_value() && *value == *value && *value <= 1e300 && *value >= -1e300,
                 "{}: {} must be a number", at(node.source()), key);
  return *value;
}

void ConstantFile::read(const toml::table& table, std::string_view key, Constant& target) const {
  const toml::node* node = table.get(key);
  if (node == nullptr) return;
  const auto* array = node->as_array();
  if (array == nullptr) {
    target = {number(*node, key), Provenance::kDefault, file_name_};
    return;
  }
  require_config(array->size() == 3, "{}: {} must be a number or [number, \"vendor\", \"source\"]",
                 at(node->source()), key);
  target.value = number(*array->get(0), key);
  target.provenance = provenance(*array->get(1), key);
  target.source = text(*array->get(2), key);
}

void ConstantFile::read_with_unit(const toml::table& table, std::string_view key,
                                  std::string_view unit, Constant& target) const {
  const toml::node* node = table.get(key);
  if (node == nullptr) return;
  const auto* array = node->as_array();
  require_config(array != nullptr && array->size() == 4,
                 "{}: {} must be [number, \"{}\", \"counted\", \"where it comes from\"]",
                 at(node->source()), key, unit);
  const std::string named = text(*array->get(1), key);
  require_config(named == unit, "{}: {} is in {}, got {}", at(array->get(1)->source()), key,
                 in_quotes(unit), in_quotes(named));
  target.value = number(*array->get(0), key);
  target.provenance = provenance(*array->get(2), key);
  target.source = text(*array->get(3), key);
  require_config(!target.source.empty(), "{}: {} must say where it comes from",
                 at(array->get(3)->source()), key);
}

void ConstantFile::read(const toml::table& table, std::string_view key, std::string& target) const {
  if (const toml::node* node = table.get(key)) target = text(*node, key);
}

void ConstantFile::read(const toml::table& table, std::string_view key, bool& target) const {
  const toml::node* node = table.get(key);
  if (node == nullptr) return;
  require_config(node->is_boolean(), "{}: {} must be true or false", at(node->source()), key);
  target = node->as_boolean()->get();
}

void ConstantFile::read(const toml::table& table, std::string_view key, int64_t most,
                        int64_t& target) const {
  const toml::node* node = table.get(key);
  if (node == nullptr) return;
  const std::optional<int64_t> count =
      node->is_string() ? parse_count(node->as_string()->get()) : node->value_exact<int64_t>();
  require_config(count.has_value(), "{}: {} must be a whole number", at(node->source()), key);
  target = *count;
  require_config(target >= 0 && target <= most, "{}: {} must be from 0 to {}, got {}",
                 at(node->source()), key, most, target);
}

std::string ConstantFile::text(const toml::node& node, std::string_view key) const {
  require_config(node.is_string(), "{}: {} must be a text in quotes", at(node.source()), key);
  return node.as_string()->get();
}

Provenance ConstantFile::provenance(const toml::node& node, std::string_view key) const {
  const std::string name = text(node, key);
  for (const Provenance candidate : kAllProvenances) {
    if (name_of(candidate) == name) return candidate;
  }
  throw ConfigError(fmt::format(
      "{}: {}: {} is not a provenance; use vendor, measured, fitted, counted, borrowed or default",
      at(node.source()), key, in_quotes(name)));
}

}  // namespace tessera
