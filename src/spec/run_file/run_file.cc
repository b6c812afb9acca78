#include "spec/run_file/run_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "spec/catalogue/model_catalogue.h"
#include "spec/entry.h"
#include "spec/families.h"
#include "spec/run_file/setting.h"
#include "spec/token_batch.h"
#include "spec/toml_entries.h"

namespace tessera {
namespace {

// Two ways to say one thing; at most one may be used. Either may be a key or a nested section.
struct Alternatives {
  std::string_view section, first, second;
};
constexpr std::string_view kInit = "init";
constexpr Alternatives kAlternatives[] = {
    {"model", "preset", "hf"},  {"data", "path", "synth"},  {"data", "path", "train"},
    {"data", "path", "mix"},    {"data", "synth", "train"}, {"data", "synth", "mix"},
    {"data", "train", "mix"},   {"data", "chats", "path"},  {"data", "chats", "synth"},
    {"data", "chats", "train"}, {"data", "chats", "mix"}};

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

std::vector<Entry> entries_of_all(std::span<const Setting> settings) {
  std::vector<Entry> entries;
  for (const Setting& setting : settings) {
    const std::vector<Entry> more = entries_of(setting);
    entries.insert(entries.end(), more.begin(), more.end());
  }
  return entries;
}

// The last of the entries of a key; nullptr: none.
const Entry* last_of(std::span<const Entry> entries, std::string_view section,
                     std::string_view name) {
  const Entry* last = nullptr;
  for (const Entry& entry : entries) {
    if (entry.section == section && entry.name == name) last = &entry;
  }
  return last;
}

// Tokens of a sequence, as the last who speaks of it says; 0 where that is no length.
int64_t sequence_length(std::span<const Entry> file, std::span<const Entry> set) {
  const Entry* said = last_of(set, "train", "seq_len");
  if (said == nullptr) said = last_of(file, "train", "seq_len");
  if (said == nullptr) return TrainSpec().seq_len;
  const nlohmann::json value = as_count(*find_key("train", "seq_len"), said->value);
  return value.is_number_integer() ? std::max<int64_t>(0, value.get<int64_t>()) : 0;
}

// A batch in tokens becomes one in sequences.
void count_sequences(std::vector<Entry>& entries, int64_t seq_len) {
  for (Entry& entry : entries) {
    if (entry.section != "train" || entry.name != "global_batch" || !entry.value.is_string()) {
      continue;
    }
    const std::optional<int64_t> tokens = parse_tokens(entry.value.get<std::string>());
    if (!tokens.has_value() || seq_len == 0) continue;  // apply() says what is wrong
    entry.value =
        sequences_of(*tokens, seq_len, fmt::format("{}: train.global_batch", entry.value_at));
  }
}

// What the run file's [model] starts from: a preset, a Hugging Face folder, or nothing.
ModelSpec base_model(const ModelSpec& asked, std::span<const Entry> entries,
                     const FileReader& read_file) {
  const Entry* preset = last_of(entries, "model", "preset");
  const Entry* hf = last_of(entries, "model", "hf");
  try {
    if (preset != nullptr) {
      ModelSpec model = find_model(asked.preset, read_file).model;
      // Derived again, since the file may change hidden or heads.
      if (model.head_dim * model.heads == model.hidden) model.head_dim = 0;
      return model;
    }
    if (hf != nullptr) {
      return model_from_hf_config(read_hf_config(asked.hf, read_file), hf_config_path(asked.hf));
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

void require_parts(const RunSpec& spec, std::span<const Entry> entries) {
  const Entry* mix = last_of(entries, "data", "mix");
  require_config(mix == nullptr || !spec.data.mix.empty(),
                 "{}: data.mix names no set; write for example mix = [{{ path = \"a\", weight = 2 "
                 "}}, {{ path = \"b\", weight = 1 }}]",
                 mix == nullptr ? "" : mix->value_at);
}

}  // namespace

RunSpec parse_run_file(std::string_view text, const std::string& file_name,
                       std::span<const std::string> overrides, const FileReader& read_file) {
  std::vector<Setting> settings;
  for (const std::string& override_text : overrides) {
    settings.push_back(setting_of_set(override_text));
  }
  return parse_run(text, file_name, settings, read_file);
}

RunSpec parse_run(std::string_view text, const std::string& file_name,
                  std::span<const Setting> settings, const FileReader& read_file) {
  std::vector<Entry> entries = entries_of_toml(text, file_name);
  std::vector<Entry> set = entries_of_all(settings);
  const int64_t seq_len = sequence_length(entries, set);
  count_sequences(entries, seq_len);
  count_sequences(set, seq_len);
  const bool says_weights = find_entry(set, "model", kInit) != nullptr;
  const bool in_file = takes_random_weights(entries), in_set = takes_random_weights(set);
  const bool random_weights = says_weights ? in_set : in_file;
  // Before anything is dropped or merged, so that mistakes are reported in the order of the file.
  RunSpec asked;
  apply(entries, asked, Ranges::kCheck);
  refuse_both(entries);
  apply(set, asked, Ranges::kCheck);
  refuse_both(set);
  drop_overridden(entries, set);
  entries.insert(entries.end(), set.begin(), set.end());

  RunSpec spec;
  spec.logging.run_dir.clear();
  spec.model = base_model(asked.model, entries, read_file);
  use_named_family(spec.model, asked.model, entries);
  apply(entries, spec, Ranges::kCheck);
  spec.model.hf = hf_folder(spec.model.hf);
  require_model(spec, entries, file_name);
  require_rope_type(spec, entries);
  require_parts(spec, entries);
  if (random_weights) spec.model.hf.clear();
  return spec;
}

std::string named_cluster(std::string_view text, const std::string& file_name,
                          std::span<const Setting> settings) {
  const std::vector<Entry> file = entries_of_toml(text, file_name);
  const std::vector<Entry> set = entries_of_all(settings);
  const Entry* said = last_of(set, "cluster", "name");
  if (said == nullptr) said = last_of(file, "cluster", "name");
  // What is no text is refused by those who read the whole run.
  return said != nullptr && said->value.is_string() ? said->value.get<std::string>() : "";
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
    require_config(piece.find('=', equals + 1) == std::string_view::npos,
                   "{}: '{}' is more than one key=value; put commas between them, as in dp=2,tp=2",
                   at, piece);
    const std::string name(trim(piece.substr(0, equals)));
    const std::string place = fmt::format("{}, piece '{}'", at, piece);
    require_config(seen.insert(name).second, "{}: '{}' is given twice", place, name);
    apply(entries_of_value("parallel", name, trim(piece.substr(equals + 1)), place), spec,
          Ranges::kCheck);
  }
  return spec.parallel;
}

}  // namespace tessera
