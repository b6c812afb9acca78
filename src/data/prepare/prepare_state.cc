#include "data/prepare/prepare_state.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <map>
#include <system_error>

#include "base/error.h"
#include "base/hash.h"
#include "data/set/output_bytes.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kVersion = 1;

std::map<std::string, json> by_path(const json& inputs) {
  std::map<std::string, json> files;
  for (const json& one : inputs) {
    if (one.is_array() && one.size() == 3 && one[0].is_string()) {
      files[one[0].get<std::string>()] = one;
    }
  }
  return files;
}

}  // namespace

fs::path state_path(const fs::path& out) { return out / "prepare.json"; }

std::optional<PrepareState> read_state(const fs::path& out) {
  const fs::path path = state_path(out);
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const json read = json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    require_config(read.is_object() && read.at("version") == kVersion, "another version");
    const json& place = read.at("place");
    PrepareState state{.job = read.at("job"),
                       .place = {.file = place.at(0).get<int64_t>(),
                                 .byte = place.at(1).get<int64_t>(),
                                 .in_document = place.at(3).get<bool>(),
                                 .document_hash = place.at(4).get<uint64_t>()},
                       .line = place.at(2).get<int64_t>(),
                       .num_empty = read.at("empty").get<int64_t>(),
                       .num_bad = read.at("bad").get<int64_t>()};
    require_config(state.place.file >= 0 && state.place.byte >= 0, "a place before the first");
    for (const json& set : read.at("sets")) state.sets.push_back(set);
    return state;
  } catch (const std::exception&) {
    throw ConfigError(fmt::format(
        "'{}' is damaged, or of another version: start over with --overwrite", path.string()));
  }
}

void write_state(const fs::path& out, const PrepareState& state) {
  const InputPlace& place = state.place;
  const json written = {
      {"version", kVersion},
      {"job", state.job},
      {"place", {place.file, place.byte, state.line, place.in_document, place.document_hash}},
      {"empty", state.num_empty},
      {"bad", state.num_bad},
      {"sets", state.sets}};
  // Names of files need not be UTF-8.
  replace_file(state_path(out), written.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

json json_of(const std::vector<PrepareInput>& inputs) {
  json list = json::array();
  for (const PrepareInput& input : inputs) {
    list.push_back({input.path, input.bytes, input.changed_ns});
  }
  return list;
}

std::string job_difference(const json& before, const json& now) {
  if (!before.is_object()) return "what it was made of is not known";
  const std::map<std::string, json> old_files = by_path(before.value("inputs", json::array()));
  const std::map<std::string, json> new_files = by_path(now.at("inputs"));
  for (const auto& [path, facts] : new_files) {
    const auto found = old_files.find(path);
    if (found == old_files.end()) return fmt::format("'{}' was not among its inputs", path);
    if (found->second != facts) return fmt::format("'{}' was changed since", path);
  }
  for (const auto& [path, facts] : old_files) {
    if (!new_files.contains(path)) return fmt::format("'{}' was among its inputs", path);
  }
  for (const auto& [key, value] : now.items()) {
    if (key == "inputs" || before.value(key, json()) == value) continue;
    const auto shown = [](const json& one) {
      return one.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 60);
    };
    return fmt::format("its {} was {}, not {}", key, shown(before.value(key, json())),
                       shown(value));
  }
  // The order of inputs decides about the order of documents.
  return before == now ? "" : "its inputs came in another order";
}

}  // namespace tessera
