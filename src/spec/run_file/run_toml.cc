#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "spec/entry.h"
#include "spec/run_file/run_file.h"

namespace tessera {
namespace {

constexpr std::string_view kHead =
    "# What a run was told and what it chose: training this file is the same run again.\n"
    "# logging.run_dir is left out, so that it gets a directory of its own.\n";

std::string toml_value(const nlohmann::ordered_json& value);

// Names that a user chose are quoted: they may have any characters.
std::string toml_table(const nlohmann::ordered_json& table, bool quoted) {
  std::string fields;
  for (const auto& [name, field] : table.items()) {
    fields +=
        fmt::format("{}{} = {}", fields.empty() ? "" : ", ",
                    quoted ? toml_value(nlohmann::ordered_json(name)) : name, toml_value(field));
  }
  return fmt::format("{{ {} }}", fields);
}

// JSON's escapes are TOML's too, and TOML wants one more.
std::string toml_value(const nlohmann::ordered_json& value) {
  std::string text;
  if (value.is_object()) return toml_table(value, /*quoted=*/true);
  if (value.is_array() && !value.empty() && value.front().is_object()) {
    for (const nlohmann::ordered_json& table : value) {
      text += (text.empty() ? "" : ", ") + toml_table(table, /*quoted=*/false);
    }
    return "[" + text + "]";
  }
  text = value.dump();
  for (size_t at = text.find('\x7f'); at != std::string::npos; at = text.find('\x7f', at)) {
    text.replace(at, 1, "\\u007f");
  }
  return text;
}

// Keys that say nothing where others say it, and the directory, which is the former run's own.
bool is_left_out(const Key& key, const RunSpec& spec, const nlohmann::ordered_json& value) {
  if (key.section == "logging" && key.name == "run_dir") return true;
  if (key.section == "parallel" && key.name == "schedule_csv") return true;  // from the file
  if (key.section == "data.synth") {
    return !spec.data.path.empty() || !spec.data.chats.empty() || spec.data.is_sets();
  }
  if (key.section == "data" && key.name == "mix") return spec.data.mix.empty();
  return value.is_string() && value.get_ref<const std::string&>().empty();
}

}  // namespace

std::string to_toml(const RunSpec& spec) {
  RunSpec copy = spec;  // fields are reached through mutable pointers
  std::vector<std::pair<std::string, std::string>> sections;  // name and lines, in order
  for (const Key& key : run_keys()) {
    const nlohmann::ordered_json value = value_of(key.field(copy));
    if (is_left_out(key, spec, value)) continue;
    auto section = std::find_if(sections.begin(), sections.end(),
                                [&](const auto& other) { return other.first == key.section; });
    if (section == sections.end()) {
      section = sections.insert(sections.end(), {std::string(key.section), ""});
    }
    section->second += fmt::format("{} = {}\n", key.name, toml_value(value));
  }
  std::string text(kHead);
  for (const auto& [name, lines] : sections) text += fmt::format("\n[{}]\n{}", name, lines);
  return text;
}

}  // namespace tessera
