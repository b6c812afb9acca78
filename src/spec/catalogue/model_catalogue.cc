#include "spec/catalogue/model_catalogue.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/text/parse_real.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "spec/catalogue/catalogue_source.h"
#include "spec/entry.h"
#include "spec/families.h"
#include "spec/hf_config.h"
#include "spec/toml_entries.h"

namespace tessera {
namespace {

const CatalogueKind kModels = {"models", "model preset", embedded_models};
constexpr std::string_view kHeadKeys[] = {"extends", "source", "parameters", "active_parameters",
                                          "model"};

// 405_853_388_800, or "37B", "540.35B", "124M".
PublishedCount read_count(const Entry& entry) {
  if (entry.value.is_number_integer() && entry.value.get<int64_t>() > 0) {
    return {entry.value.get<double>(), 1};
  }
  const std::string text = entry.value.is_string() ? entry.value.get<std::string>() : "";
  const double unit = text.ends_with('B') ? 1e9 : text.ends_with('M') ? 1e6 : 0;
  const std::string_view digits =
      std::string_view(text).substr(0, text.empty() ? 0 : text.size() - 1);
  const double number = whole_real(digits, RealForm::kFixed).value_or(0);
  require_config(unit > 0 && number > 0, "{}: {} must be a count, such as 8_030_261_248 or \"37B\"",
                 entry.value_at, entry.name);
  double last_digit = unit;
  const size_t point = text.find('.');
  const size_t decimals = point == std::string::npos ? 0 : text.size() - 2 - point;
  for (size_t i = 0; i < decimals; ++i) last_digit /= 10;
  return {number * unit, last_digit};
}

class Reader {
 public:
  Reader(const FileReader& read, const std::string& first) : chain_(read, first) {}

  ModelEntry parse(const CatalogueSource& source);

 private:
  void extend(const Entry& entry, const std::string& file_name, ModelEntry& result);
  void start_from_hf(const Entry& entry, const std::string& file_name, ModelEntry& result);

  ExtendsChain chain_;
};

void Reader::extend(const Entry& entry, const std::string& file_name, ModelEntry& result) {
  require_config(entry.value.is_string(), "{}: extends must be the name of a model or a file",
                 entry.value_at);
  try {
    const CatalogueSource next =
        find_source(kModels, beside(file_name, entry.value.get<std::string>()), chain_.read());
    chain_.enter(next.file_name, "");
    result = parse(next);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", entry.value_at, error.what()));
  }
}

// The text of a file that lies beside the model file, or else in the current folder; `path` becomes
// where it was found.
std::string read_near(const FileReader& read, const std::string& file_name, std::string& path) {
  const size_t slash = file_name.rfind('/');
  if (slash != std::string::npos && !path.starts_with('/')) {
    const std::string near = file_name.substr(0, slash + 1) + path;
    try {
      std::string text = read(near);
      path = near;
      return text;
    } catch (const ConfigError&) {
      return read(path);  // it does not lie there
    }
  }
  return read(path);
}

void Reader::start_from_hf(const Entry& entry, const std::string& file_name, ModelEntry& result) {
  require_config(entry.value.is_string(), "{}: model.hf must be a Hugging Face folder",
                 entry.value_at);
  require_config(chain_.read() != nullptr, "{}: model.hf is a folder, and no file can be read here",
                 entry.value_at);
  require_config(result.model.layers == 0, "{}: extends and model.hf exclude each other; keep one",
                 entry.value_at);
  std::string path = hf_config_path(entry.value.get<std::string>());
  try {
    const std::string text = read_near(chain_.read(), file_name, path);
    result.model = model_from_hf_config(text, path);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", entry.value_at, error.what()));
  }
}

void refuse_other_sections(std::span<const Entry> entries) {
  for (const Entry& entry : entries) {
    const bool head = entry.section.empty() && std::find(std::begin(kHeadKeys), std::end(kHeadKeys),
                                                         entry.name) != std::end(kHeadKeys);
    const bool model = entry.section == "model" || entry.section.starts_with("model.");
    require_config(
        head || model || !entry.section.empty() || !is_section(entry.name),
        "{}: [{}] belongs in a run file, and this is read as a model: a run file is named "
        "without --model",
        entry.key_at, entry.name);
    if (!head && !model) {
      throw ConfigError(fmt::format("{}: unknown '{}' in a model file; {}", entry.key_at,
                                    shortened(entry.name),
                                    suggestion(entry.name, kHeadKeys, "keys and sections")));
    }
    require_config(entry.section != "model" || entry.name != "preset",
                   "{}: model.{} does not belong in a model file; use extends = \"NAME\"",
                   entry.key_at, entry.name);
  }
}

void fill_in(ModelSpec& model) {
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.head_dim == 0 && model.heads > 0) model.head_dim = model.hidden / model.heads;
}

ModelEntry Reader::parse(const CatalogueSource& source) {
  std::vector<Entry> entries = entries_of_toml(source.text, source.file_name);
  refuse_other_sections(entries);
  ModelEntry result;
  std::vector<Entry> keys;
  for (const Entry& entry : entries) {
    if (entry.name == "extends" && entry.section.empty()) extend(entry, source.file_name, result);
  }
  for (const Entry& entry : entries) {
    if (entry.section == "model" && entry.name == "hf") {
      start_from_hf(entry, source.file_name, result);
    }
  }
  for (Entry& entry : entries) {
    if (entry.section == "model" && entry.name == "hf") continue;
    if (!entry.section.empty() || entry.name == "model") {
      keys.push_back(std::move(entry));
    } else if (entry.name == "source") {
      require_config(entry.value.is_string(), "{}: source must be a text", entry.value_at);
      result.source = entry.value.get<std::string>();
    } else if (entry.name == "parameters") {
      result.parameters = read_count(entry);
    } else if (entry.name == "active_parameters") {
      result.active_parameters = read_count(entry);
    }
  }
  RunSpec asked;
  apply(keys, asked, Ranges::kCheck);  // before a family is used, so that mistakes have their place
  RunSpec spec;
  spec.model = result.model;
  // Derived again, since the file may change hidden or heads.
  if (spec.model.head_dim * spec.model.heads == spec.model.hidden) spec.model.head_dim = 0;
  const bool names_family = std::any_of(keys.begin(), keys.end(), [](const Entry& key) {
    return key.section == "model" && key.name == "family";
  });
  if (names_family && asked.model.family != spec.model.family) {
    use_family(spec.model, asked.model.family);
  }
  apply(keys, spec, Ranges::kCheck);
  fill_in(spec.model);
  result.model = spec.model;
  return result;
}

// The text of the config.json that `name` names; nothing where it is the name of something else.
// What looks like a path is one, and its reader says why it cannot be read.
std::optional<std::string> hf_config_named(const std::string& name, const FileReader& read) {
  if (!read || name.ends_with(".toml")) return std::nullopt;
  const bool is_path =
      name.ends_with(".json") || name.find('/') != std::string::npos || name == "." || name == "..";
  if (is_path) return read_hf_config(name, read);
  if (look_up(kModels, name, read).has_value()) return std::nullopt;
  try {
    return read(hf_config_path(name));
  } catch (const ConfigError&) {
    return std::nullopt;  // no such folder: the caller says which names there are
  }
}

ModelEntry complete(ModelEntry entry, const std::string& file_name) {
  RunSpec spec;
  spec.model = entry.model;
  std::vector<std::string_view> missing;
  for (const Key& key : run_keys()) {
    if (key.required && value_of(key.field(spec)) == 0) missing.push_back(key.name);
  }
  require_config(missing.empty(), "{}: [model] is missing {}", file_name, fmt::join(missing, ", "));
  return entry;
}

}  // namespace

std::string hub_advice(const std::string& name) {
  if (look_up(kModels, name, nullptr).has_value()) {
    return "; a preset has a shape and no weights: give a folder";
  }
  const size_t slash = name.rfind('/');
  const bool address = name.find("://") != std::string::npos;
  const bool id = slash != std::string::npos && name.find('/') == slash && slash > 0 &&
                  slash + 1 < name.size() && name.front() != '.' && name.front() != '~';
  if (!address && !id) return "";
  return fmt::format("; nothing is fetched from the Hub: give a folder that is here, or a preset{}",
                     meant_entries(kModels, name.substr(slash + 1)));
}

std::string read_hf_config(const std::string& name, const FileReader& read) {
  try {
    return read(hf_config_path(name));
  } catch (const ConfigError& error) {
    const std::string advice = name.ends_with(".json") ? "" : hub_advice(name);
    if (advice.empty()) throw;
    throw ConfigError(error.what() + advice);
  }
}

std::vector<std::string_view> model_names() { return names_of(kModels); }

ModelEntry find_model(const std::string& name, const FileReader& read) {
  ModelEntry entry;
  if (const std::optional<std::string> config = hf_config_named(name, read)) {
    entry.model = model_from_hf_config(*config, hf_config_path(name));
    entry.source = hf_config_path(name);
    fill_in(entry.model);
  } else {
    const CatalogueSource source = find_source(kModels, name, read);
    entry = complete(Reader(read, source.file_name).parse(source), name);
  }
  entry.model.preset = name;
  return entry;
}

}  // namespace tessera
