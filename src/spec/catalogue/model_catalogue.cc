#include "spec/catalogue/model_catalogue.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>

#include "base/embedded.h"
#include "base/error.h"
#include "base/parse_real.h"
#include "base/text.h"
#include "spec/entry.h"
#include "spec/families.h"
#include "spec/toml_entries.h"

namespace tessera {
namespace {

constexpr std::string_view kFolder = "catalogue/models/";  // of the user, where the program runs
constexpr std::string_view kHeadKeys[] = {"extends", "source", "parameters", "active_parameters",
                                          "model"};

struct Source {
  std::string file_name;  // where errors point; also what tells files apart
  std::string text;
};

bool is_path(std::string_view name) { return name.ends_with(".toml"); }

// Nothing that could leave the folder.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

[[noreturn]] void fail_unknown(const std::string& name) {
  const std::vector<std::string_view> known = model_names();
  const std::string nearest = nearest_name(name, known);
  throw ConfigError(fmt::format(
      "unknown model preset {}{}; known presets: {}; or the path of a model file that ends in "
      ".toml",
      in_quotes(name), nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest),
      fmt::join(known, ", ")));
}

std::optional<Source> in_user_folder(const std::string& name, const FileReader& read) {
  if (!read || !is_plain_name(name)) return std::nullopt;
  const std::string path = fmt::format("{}{}.toml", kFolder, name);
  try {
    return Source{path, read(path)};
  } catch (const ConfigError&) {
    return std::nullopt;  // no such file: the caller says what there is
  }
}

Source source_of(const std::string& name, const FileReader& read) {
  if (is_path(name)) {
    require_config(read != nullptr, "model file {} cannot be read here", in_quotes(name));
    return {name, read(name)};
  }
  for (const EmbeddedFile& file : embedded_models()) {
    if (file.name == name) return {std::string(file.name), std::string(file.text)};
  }
  std::optional<Source> own = in_user_folder(name, read);
  if (!own) fail_unknown(name);
  return *std::move(own);
}

// A file that another one extends lies beside it.
std::string beside(const std::string& file_name, const std::string& extended) {
  const size_t slash = file_name.rfind('/');
  if (!is_path(extended) || extended.starts_with('/') || slash == std::string::npos) {
    return extended;
  }
  return file_name.substr(0, slash + 1) + extended;
}

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
  explicit Reader(const FileReader& read) : read_(read) {}

  ModelEntry parse(const Source& source);

 private:
  void extend(const Entry& entry, const std::string& file_name, ModelEntry& result);

  const FileReader& read_;
  std::vector<std::string> chain_;  // files that are being read, outermost first
};

void Reader::extend(const Entry& entry, const std::string& file_name, ModelEntry& result) {
  require_config(entry.value.is_string(), "{}: extends must be the name of a model or a file",
                 entry.value_at);
  try {
    const Source next = source_of(beside(file_name, entry.value.get<std::string>()), read_);
    const auto seen = std::find(chain_.begin(), chain_.end(), next.file_name);
    require_config(seen == chain_.end(), "a circle: {} extends {}; let one of them extend nothing",
                   fmt::join(seen, chain_.end(), " extends "), next.file_name);
    result = parse(next);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", entry.value_at, error.what()));
  }
}

void refuse_other_sections(std::span<const Entry> entries) {
  for (const Entry& entry : entries) {
    const bool head = entry.section.empty() && std::find(std::begin(kHeadKeys), std::end(kHeadKeys),
                                                         entry.name) != std::end(kHeadKeys);
    const bool model = entry.section == "model" || entry.section.starts_with("model.");
    require_config(head || model, "{}: unknown '{}' in a model file; {}", entry.key_at, entry.name,
                   suggestion(entry.name, kHeadKeys, "keys and sections"));
    require_config(entry.section != "model" || (entry.name != "preset" && entry.name != "hf"),
                   "{}: model.{} does not belong in a model file; use extends = \"NAME\"",
                   entry.key_at, entry.name);
  }
}

void fill_in(ModelSpec& model) {
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.head_dim == 0 && model.heads > 0) model.head_dim = model.hidden / model.heads;
}

ModelEntry Reader::parse(const Source& source) {
  constexpr size_t kDeepest = 16;
  chain_.push_back(source.file_name);
  require_config(chain_.size() <= kDeepest, "{}: more than {} files extend each other",
                 source.file_name, kDeepest);
  std::vector<Entry> entries = entries_of_toml(source.text, source.file_name);
  refuse_other_sections(entries);
  ModelEntry result;
  std::vector<Entry> keys;
  for (const Entry& entry : entries) {
    if (entry.name == "extends" && entry.section.empty()) extend(entry, source.file_name, result);
  }
  for (Entry& entry : entries) {
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
  chain_.pop_back();
  return result;
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

std::vector<std::string_view> model_names() {
  std::vector<std::string_view> names;
  for (const EmbeddedFile& file : embedded_models()) names.push_back(file.name);
  std::sort(names.begin(), names.end());
  return names;
}

ModelEntry find_model(const std::string& name, const FileReader& read) {
  ModelEntry entry = complete(Reader(read).parse(source_of(name, read)), name);
  entry.model.preset = name;
  return entry;
}

ModelEntry parse_model(std::string_view text, const std::string& file_name,
                       const FileReader& read) {
  return complete(Reader(read).parse({file_name, std::string(text)}), file_name);
}

}  // namespace tessera
