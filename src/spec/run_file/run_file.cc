#include "spec/run_file/run_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "spec/catalogue/model_catalogue.h"
#include "spec/entry.h"
#include "spec/families.h"
#include "spec/toml_entries.h"

namespace tessera {
namespace {

// Two ways to say one thing; at most one may be used. Either may be a key or a nested section.
struct Alternatives {
  std::string_view section, first, second;
};
constexpr std::string_view kInit = "init";
constexpr Alternatives kAlternatives[] = {{"model", "preset", "hf"}, {"data", "path", "synth"}};

bool says(const Entry& entry, std::string_view section, std::string_view name) {
  return (entry.section == section && entry.name == name) ||
         entry.section == join_path(section, name);
}

const Entry* find_entry(std::span<const Entry> entries, std::string_view section,
                        std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& e) { return says(e, section, name); });
  return found == entries.end() ? nullptr : &*found;
}

void refuse_both(std::span<const Entry> entries) {
  for (const auto& [section, first, second] : kAlternatives) {
    const Entry* one = find_entry(entries, section, first);
    const Entry* other = find_entry(entries, section, second);
    if (one == nullptr || other == nullptr) continue;
    const Entry* later = one < other ? other : one;  // both point into `entries`
    throw ConfigError(fmt::format("{}: {}.{} and {}.{} exclude each other; keep one of them",
                                  later->key_at, section, first, section, second));
  }
}

// --set data.path replaces a file's data.synth, and the other way round.
void drop_overridden(std::vector<Entry>& file, std::span<const Entry> overrides) {
  for (const auto& [section, first, second] : kAlternatives) {
    for (const auto& [set, dropped] : {std::pair{first, second}, std::pair{second, first}}) {
      if (find_entry(overrides, section, set) == nullptr) continue;
      std::erase_if(file,
                    [of = section, key = dropped](const Entry& e) { return says(e, of, key); });
    }
  }
}

std::vector<Entry> entries_of_override(const std::string& text) {
  const std::string at = "--set " + text;
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
    throw ConfigError(fmt::format("{}: unknown section '{}'; {}", at, section,
                                  nearest.empty() ? suggestion(section, names_in(""), "sections")
                                                  : fmt::format("did you mean '{}'?", nearest)));
  }
  return entries_of_value(section, name, value, at);
}

// What the run file's [model] starts from: a preset, a Hugging Face folder, or nothing.
ModelSpec base_model(const ModelSpec& asked, std::span<const Entry> entries,
                     const FileReader& read_file) {
  const Entry* preset = find_entry(entries, "model", "preset");
  const Entry* hf = find_entry(entries, "model", "hf");
  try {
    if (preset != nullptr) {
      ModelSpec model = find_model(asked.preset, read_file).model;
      // Derived again, since the file may change hidden or heads.
      if (model.head_dim * model.heads == model.hidden) model.head_dim = 0;
      return model;
    }
    if (hf != nullptr) {
      const std::string file_name = asked.hf + (asked.hf.ends_with('/') ? "" : "/") + "config.json";
      return model_from_hf_config(read_file(file_name), file_name);
    }
  } catch (const ConfigError& error) {
    throw ConfigError(
        fmt::format("{}: {}", (preset != nullptr ? preset : hf)->value_at, error.what()));
  }
  return {};
}

// model.init says where the weights come from: "weights" (of the folder, the default) or "random"
// (the folder gives the shape of the model alone). It is no value of a run: one that starts from
// random weights simply has no folder. The last entry counts; all are taken out.
bool takes_random_weights(std::vector<Entry>& entries) {
  const auto is_init = [](const Entry& e) { return e.section == "model" && e.name == kInit; };
  bool random = false;
  for (const Entry& entry : entries) {
    if (!is_init(entry)) continue;
    const std::string value = entry.value.is_string() ? entry.value.get<std::string>() : "";
    require_config(value == "random" || value == "weights",
                   "{}: model.init must be \"random\" or \"weights\", got {}", entry.value_at,
                   value.empty() ? "no text" : in_quotes(value));
    random = value == "random";
  }
  std::erase_if(entries, is_init);
  return random;
}

// A family that the file names, and that is not the one the model started from, brings its blocks.
void use_named_family(ModelSpec& model, const ModelSpec& asked, std::span<const Entry> entries) {
  const bool named = find_entry(entries, "model", "family") != nullptr;
  if (named && asked.family != model.family) use_family(model, asked.family);
}

void require_model(RunSpec& spec, std::span<const Entry> entries, const std::string& file_name) {
  std::vector<std::string_view> missing;
  for (const Key& key : run_keys()) {
    if (key.required && value_of(key.field(spec)) == 0) missing.push_back(key.name);
  }
  if (missing.empty()) return;
  const Entry* model = find_entry(entries, "", "model");
  throw ConfigError(
      fmt::format("{}: [model] is missing {}; give {}, or name a preset or an hf folder",
                  model == nullptr ? file_name : model->key_at, fmt::join(missing, ", "),
                  missing.size() == 1 ? "it" : "them"));
}

// Factors without a type would silently do nothing.
void require_rope_type(const RunSpec& spec, std::span<const Entry> entries) {
  const Entry* scaling = find_entry(entries, "model", "rope_scaling");
  if (scaling == nullptr || spec.model.rope.scaling == RopeScaling::kLlama3) return;
  require_config(find_entry(entries, "model.rope_scaling", "type") != nullptr,
                 "{}: model.rope_scaling needs type = \"llama3\"", scaling->key_at);
}

}  // namespace

RunSpec parse_run_file(std::string_view text, const std::string& file_name,
                       std::span<const std::string> overrides, const FileReader& read_file) {
  std::vector<Entry> entries = entries_of_toml(text, file_name);
  bool random_weights = takes_random_weights(entries);
  // Before anything is dropped or merged, so that mistakes are reported in the order of the file.
  RunSpec asked;
  apply(entries, asked, Ranges::kCheck);
  refuse_both(entries);
  std::vector<Entry> set;
  for (const std::string& override_text : overrides) {
    std::vector<Entry> more = entries_of_override(override_text);
    const size_t all = more.size();
    const bool random = takes_random_weights(more);
    if (more.size() < all) random_weights = random;
    set.insert(set.end(), more.begin(), more.end());
  }
  apply(set, asked, Ranges::kCheck);
  refuse_both(set);
  drop_overridden(entries, set);
  entries.insert(entries.end(), set.begin(), set.end());

  RunSpec spec;
  spec.model = base_model(asked.model, entries, read_file);
  use_named_family(spec.model, asked.model, entries);
  apply(entries, spec, Ranges::kCheck);
  require_model(spec, entries, file_name);
  require_rope_type(spec, entries);
  if (random_weights) spec.model.hf.clear();
  return spec;
}

ParallelSpec parse_mesh(std::string_view mesh, const ParallelSpec& base) {
  const std::string at = fmt::format("mesh '{}'", mesh);
  RunSpec spec;
  spec.parallel = base;
  for (int64_t* axis : {&spec.parallel.pp, &spec.parallel.dp, &spec.parallel.fsdp,
                        &spec.parallel.cp, &spec.parallel.tp, &spec.parallel.ep}) {
    *axis = 1;
  }
  std::set<std::string> seen;
  for (const std::string_view part : split(mesh, ',')) {
    const std::string_view piece = trim(part);
    const size_t equals = piece.find('=');
    require_config(equals != std::string_view::npos && equals > 0,
                   "{}: '{}' is not key=value; write for example dp=2,tp=2", at, piece);
    const std::string name(trim(piece.substr(0, equals)));
    const std::string place = fmt::format("{}, piece '{}'", at, piece);
    require_config(seen.insert(name).second, "{}: '{}' is given twice", place, name);
    apply(entries_of_value("parallel", name, trim(piece.substr(equals + 1)), place), spec,
          Ranges::kCheck);
  }
  return spec.parallel;
}

}  // namespace tessera
