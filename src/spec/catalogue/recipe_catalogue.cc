#include "spec/catalogue/recipe_catalogue.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/text.h"
#include "spec/catalogue/catalogue_source.h"
#include "spec/entry.h"
#include "spec/toml_entries.h"

namespace tessera {
namespace {

const CatalogueKind kRecipes = {"recipes", "recipe", embedded_recipes};

struct TextKey {
  std::string_view name;
  std::string Recipe::*field;
};
constexpr std::array<TextKey, 4> kTexts = {{{"title", &Recipe::title},
                                            {"source", &Recipe::source},
                                            {"cluster", &Recipe::cluster},
                                            {"engine", &Recipe::engine}}};

struct ResultKey {
  std::string_view name;
  double PublishedResult::*field;
};
constexpr std::array<ResultKey, 7> kResults = {
    {{"step_s", &PublishedResult::step_s},
     {"mfu", &PublishedResult::mfu},
     {"tflops_per_device", &PublishedResult::tflops_per_device},
     {"hardware_tflops_per_device", &PublishedResult::hardware_tflops_per_device},
     {"tokens_per_s_per_device", &PublishedResult::tokens_per_s_per_device},
     {"device_hours_per_trillion", &PublishedResult::device_hours_per_trillion},
     {"memory_gib", &PublishedResult::memory_gib}}};

constexpr std::array<std::string_view, 3> kRunSections = {"model", "parallel", "train"};

bool is_run_section(std::string_view name) {
  return std::find(kRunSections.begin(), kRunSections.end(), name) != kRunSections.end();
}

std::string text_of(const Entry& entry) {
  require_config(entry.value.is_string(), "{}: {} must be a text", entry.value_at, entry.name);
  return entry.value.get<std::string>();
}

[[noreturn]] void refuse(const Entry& entry, const std::vector<std::string_view>& known) {
  throw ConfigError(fmt::format("{}: unknown '{}' in a recipe; {}", entry.key_at, entry.name,
                                suggestion(entry.name, known, "keys and sections")));
}

void read_head(const Entry& entry, Recipe& recipe) {
  std::vector<std::string_view> known = {"notes", "published", "model", "parallel", "train"};
  for (const TextKey& key : kTexts) {
    known.push_back(key.name);
    if (entry.name != key.name) continue;
    recipe.*key.field = text_of(entry);
    return;
  }
  if (entry.name != "notes") refuse(entry, known);
  require_config(entry.value.is_array(), "{}: notes must be an array of texts", entry.value_at);
  for (const nlohmann::json& note : entry.value) {
    require_config(note.is_string(), "{}: notes must be an array of texts", entry.value_at);
    recipe.notes.push_back(note.get<std::string>());
  }
}

void read_result(const Entry& entry, Recipe& recipe) {
  if (entry.name == "source") {
    recipe.published_source = text_of(entry);
    return;
  }
  std::vector<std::string_view> known = {"source"};
  for (const ResultKey& key : kResults) {
    known.push_back(key.name);
    if (entry.name != key.name) continue;
    require_config(entry.value.is_number() && entry.value.get<double>() > 0,
                   "{}: published.{} must be a number above 0", entry.value_at, entry.name);
    recipe.published.*key.field = entry.value.get<double>();
    return;
  }
  refuse(entry, known);
}

// The section is no one of a run file, so it comes in one piece.
void read_published(const Entry& section, Recipe& recipe) {
  require_config(section.value.is_object(), "{}: published must be a section", section.key_at);
  for (const auto& [name, value] : section.value.items()) {
    read_result({"published", name, section.key_at, section.value_at, value}, recipe);
  }
}

std::string setting_of(const Entry& entry) {
  const std::string value =
      entry.value.is_string() ? entry.value.get<std::string>() : entry.value.dump();
  return fmt::format("{}.{}={}", entry.section, entry.name, value);
}

void require_complete(const Recipe& recipe, const std::string& file_name) {
  for (const TextKey& key : kTexts) {
    require_config(!(recipe.*key.field).empty() || key.name == "engine", "{}: {} is missing",
                   file_name, key.name);
  }
  require_config(recipe.published.empty() || !recipe.published_source.empty(),
                 "{}: published.source is missing", file_name);
}

}  // namespace

bool PublishedResult::empty() const {
  return std::all_of(kResults.begin(), kResults.end(),
                     [&](const ResultKey& key) { return this->*key.field == 0; });
}

std::vector<std::string_view> recipe_names() { return names_of(kRecipes); }

Recipe find_recipe(const std::string& name, const FileReader& read) {
  const CatalogueSource source = find_source(kRecipes, name, read);
  Recipe recipe;
  recipe.name = name;
  for (const Entry& entry : entries_of_toml(source.text, source.file_name)) {
    if (!entry.section.empty()) {
      recipe.settings.push_back(setting_of(entry));
    } else if (entry.name == "published") {
      read_published(entry, recipe);
    } else if (!is_run_section(entry.name)) {
      read_head(entry, recipe);
    }
  }
  require_complete(recipe, source.file_name);
  return recipe;
}

}  // namespace tessera
