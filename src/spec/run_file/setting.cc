#include "spec/run_file/setting.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "spec/toml_entries.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr std::string_view kAxes[] = {"pp", "dp", "fsdp", "cp", "tp", "ep"};

struct Said {
  json value;
  std::string at;
};
using SaidByKey = std::map<std::string, Said, std::less<>>;

// "--set" of "--set train.steps=5".
std::string_view way_of(const Said& said) {
  return std::string_view(said.at).substr(0, said.at.find(' '));
}

std::string shown(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void say(const Entry& entry, SaidByKey& by_key) {
  const Key* key = find_key(entry.section, entry.name);
  const std::string path = join_path(entry.section, entry.name);
  if (key == nullptr && !is_flag_default(entry.section, entry.name)) return;  // refused by apply()
  const Said now{key == nullptr ? entry.value : as_count(*key, entry.value), entry.value_at};
  const auto before = by_key.find(path);
  if (before != by_key.end()) {
    const Said& other = before->second;
    require_config(way_of(other) == way_of(now) || other.value == now.value,
                   "{} and {} say different values of {}, {} and {}: keep one of them", other.at,
                   now.at, path, shown(other.value), shown(now.value));
  }
  by_key[path] = now;
}

std::string_view key_of_piece(std::string_view piece) {
  return trim(piece.substr(0, piece.find('=')));
}

}  // namespace

Setting setting_of_set(const std::string& text) { return {text, "--set " + shortened(text)}; }

std::vector<Entry> entries_of(const Setting& setting) {
  const std::string& text = setting.text;
  const std::string& at = setting.at;
  const size_t equals = text.find('=');
  require_config(equals != std::string::npos, "{}: write it as section.key=value", at);
  const std::string path(trim(std::string_view(text).substr(0, equals)));
  const std::string_view value = trim(std::string_view(text).substr(equals + 1));
  require_config(!path.empty(), "{}: the key is missing; write section.key=value", at);
  const size_t dot = path.rfind('.');
  const std::string section = dot == std::string::npos ? "" : path.substr(0, dot);
  const std::string name = dot == std::string::npos ? path : path.substr(dot + 1);
  if (!section.empty() && !is_section(section)) {
    std::vector<std::string> paths;
    for (const Key& key : run_keys()) paths.push_back(join_path(key.section, key.name));
    const std::vector<std::string_view> known(paths.begin(), paths.end());
    const std::string nearest = nearest_name(path, known);
    throw ConfigError(fmt::format("{}: unknown section '{}'; {}", at, shortened(section),
                                  nearest.empty() ? suggestion(section, names_in(""), "sections")
                                                  : fmt::format("did you mean '{}'?", nearest)));
  }
  return entries_of_value(section, name, value, at);
}

std::vector<std::string> keys_of_mesh(std::string_view mesh) {
  std::vector<std::string> keys;
  if (mesh.empty()) return keys;
  for (const std::string_view piece : split(mesh, ',')) {
    keys.push_back(join_path("parallel", key_of_piece(piece)));
  }
  return keys;
}

bool is_mesh_axis(std::string_view key) {
  return std::any_of(std::begin(kAxes), std::end(kAxes),
                     [&](std::string_view axis) { return key == join_path("parallel", axis); });
}

void refuse_conflicts(std::span<const Setting> settings, std::string_view mesh) {
  SaidByKey by_key;
  for (const Setting& setting : settings) {
    for (const Entry& entry : entries_of(setting)) say(entry, by_key);
  }
  if (mesh.empty()) return;
  const std::string at = fmt::format("--mesh {}", mesh);
  const std::vector<std::string> named = keys_of_mesh(mesh);
  for (const std::string_view piece : split(mesh, ',')) {
    const size_t equals = piece.find('=');
    if (equals == std::string_view::npos) return;  // parse_mesh() says what is wrong with it
    const std::string key(key_of_piece(piece));
    for (const Entry& entry :
         entries_of_value("parallel", key, trim(piece.substr(equals + 1)), at)) {
      say(entry, by_key);
    }
  }
  for (const std::string_view axis : kAxes) {
    const std::string path = join_path("parallel", axis);
    if (std::find(named.begin(), named.end(), path) != named.end()) continue;
    say({"parallel", std::string(axis), at, at + " (an axis that it does not name is 1)", 1},
        by_key);
  }
}

}  // namespace tessera
