#include "api/recipe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cost/engine/engine_catalogue.h"
#include "plan/estimate_run.h"
#include "plan/report/misfit_text.h"
#include "plan/report/plan_json.h"

namespace tessera {
namespace {

constexpr double kHour = 3600;

// What there is to compare with a published result.
struct Compared {
  const Estimate& estimate;
  double devices;
  double peak_bytes;
};

double tokens_per_s_per_device(const Compared& run) {
  return run.estimate.tokens_per_s / run.devices;
}

// A number that a source may state, in the words of a table, and what it is in a plan.
struct ResultRow {
  std::string_view what, key;
  double PublishedResult::*published;
  double (*ours)(const Compared&);
  std::string (*text)(double);
};

std::string with_one_digit(double value) { return fmt::format("{:.1f}", value); }
std::string share_text(double value) { return percent_text(value, 1); }
std::string whole_text(double value) { return with_thousands(static_cast<int64_t>(value + 0.5)); }
std::string gibibytes_text(double value) { return fmt::format("{:.1f} GiB", value); }

constexpr std::array<ResultRow, 7> kRows = {{
    {"step", "step_s", &PublishedResult::step_s,
     [](const Compared& run) { return run.estimate.time.step_s; }, short_seconds},
    {"MFU", "mfu", &PublishedResult::mfu, [](const Compared& run) { return run.estimate.mfu; },
     share_text},
    {"TFLOP/s per device", "tflops_per_device", &PublishedResult::tflops_per_device,
     [](const Compared& run) { return run.estimate.flops_per_device_s / 1e12; }, with_one_digit},
    {"TFLOP/s per device, with what is computed again", "hardware_tflops_per_device",
     &PublishedResult::hardware_tflops_per_device,
     [](const Compared& run) {
       return run.estimate.hardware_flops / run.estimate.time.step_s / run.devices / 1e12;
     },
     with_one_digit},
    {"tokens/s per device", "tokens_per_s_per_device", &PublishedResult::tokens_per_s_per_device,
     tokens_per_s_per_device, whole_text},
    {"device-hours for a trillion tokens", "device_hours_per_trillion",
     &PublishedResult::device_hours_per_trillion,
     [](const Compared& run) { return 1e12 / tokens_per_s_per_device(run) / kHour; }, whole_text},
    {"memory of the fullest device", "memory_gib", &PublishedResult::memory_gib,
     [](const Compared& run) { return run.peak_bytes / kGibibyte; }, gibibytes_text},
}};

Compared compared(const Plan& plan, const Estimate& estimate) {
  return {estimate, static_cast<double>(plan.step->cluster.devices),
          static_cast<double>(plan.peak_bytes())};
}

// The same run by the engine of the recipe, where that is another one.
std::optional<Estimate> by_engine_of(const Recipe& recipe, const Plan& plan,
                                     const FileReader& read) {
  if (recipe.engine.empty() || recipe.engine == plan.step->engine) return std::nullopt;
  return estimate_run(plan.spec, plan.step->cluster, find_engine(recipe.engine, read),
                      plan.products)
      .estimate;
}

nlohmann::ordered_json planned_json(const PublishedResult& published, const Compared& run) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const ResultRow& row : kRows) {
    if (published.*row.published > 0) json[std::string(row.key)] = row.ours(run);
  }
  return json;
}

std::string result_words(const PublishedResult& published) {
  std::vector<std::string> words;
  for (const ResultRow& row : kRows) {
    const double value = published.*row.published;
    if (value > 0) words.push_back(fmt::format("{} {}", row.what, row.text(value)));
  }
  return words.empty() ? "nothing published" : fmt::format("{}", fmt::join(words, ", "));
}

nlohmann::ordered_json head_json(const Recipe& recipe) {
  return {{"name", recipe.name},       {"title", recipe.title},       {"source", recipe.source},
          {"cluster", recipe.cluster}, {"settings", recipe.settings}, {"notes", recipe.notes}};
}

nlohmann::ordered_json published_json(const Recipe& recipe) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (recipe.published.empty()) return json;
  json["source"] = recipe.published_source;
  for (const ResultRow& row : kRows) {
    if (recipe.published.*row.published > 0) {
      json[std::string(row.key)] = recipe.published.*row.published;
    }
  }
  return json;
}

std::string one_recipe(const Recipe& recipe) {
  std::string flags;
  for (const std::string& setting : recipe.settings) flags += "  " + setting + "\n";
  std::string notes;
  for (const std::string& note : recipe.notes) notes += "  " + note + "\n";
  return fmt::format(
      "{}: {}\nsource    {}\ncluster   {}\npublished {}{}\n\nsettings\n{}{}\n"
      "tessera plan --recipe {}\n",
      recipe.name, recipe.title, recipe.source, recipe.cluster, result_words(recipe.published),
      recipe.published.empty() ? "" : fmt::format(" ({})", recipe.published_source), flags,
      notes.empty() ? "" : "\nnotes\n" + notes, recipe.name);
}

}  // namespace

std::string setting_of(const Recipe& recipe, std::string_view key) {
  for (const std::string& setting : recipe.settings) {
    const size_t equals = setting.find('=');
    if (std::string_view(setting).substr(0, equals) == key) return setting.substr(equals + 1);
  }
  return "";
}

void use_recipe(SplitFlags& split, std::string& cluster, const RunSource& source,
                const FileReader& read, std::vector<Guess>& guesses) {
  if (split.recipe.empty()) return;
  require_config(source.file.empty(),
                 "--recipe {} is a run of its own: leave out the run file, or --recipe",
                 split.recipe);
  const Recipe recipe = find_recipe(split.recipe, read);
  if (cluster.empty()) cluster = recipe.cluster;
  split.recipe_settings = recipe.settings;
  // Priced alone: models of recipes have what cannot be trained in 8 bits.
  std::erase(split.recipe_settings, "train.dtype=fp8");
  for (SplitFlags::Word& word : split.words) {
    const bool fp8 = setting_of(recipe, "train.dtype") == "fp8";
    if (fp8 && word.key == std::string_view("train.dtype") && word.value.empty())
      word.value = "fp8";
  }
  for (const std::string& note : recipe.notes) guesses.push_back({"recipe", note});
}

std::string recipe_text(const SplitFlags& split, const Plan& plan, const FileReader& read) {
  if (split.recipe.empty() || !plan.step) return "";
  const Recipe recipe = find_recipe(split.recipe, read);
  std::string text =
      fmt::format("\nrecipe {}: {}\n  {}\n", recipe.name, recipe.title, recipe.source);
  if (recipe.published.empty()) return text + "  no result is published for it\n";
  const std::optional<Estimate> theirs = by_engine_of(recipe, plan, read);
  std::vector<TextTable::Column> columns = {{"result", Align::kLeft},
                                            {"published", Align::kRight},
                                            {"engine " + plan.step->engine, Align::kRight}};
  if (theirs) columns.push_back({"engine " + recipe.engine, Align::kRight});
  TextTable table(std::move(columns));
  for (const ResultRow& row : kRows) {
    const double published = recipe.published.*row.published;
    if (published <= 0) continue;
    std::vector<std::string> cells = {std::string(row.what), row.text(published),
                                      row.text(row.ours(compared(plan, plan.step->estimate)))};
    if (theirs) cells.push_back(row.text(row.ours(compared(plan, *theirs))));
    table.add_row(std::move(cells));
  }
  return text + fmt::format("\n{}{}\n", table.str(), recipe.published_source);
}

nlohmann::ordered_json plan_document(const SplitFlags& split, const Plan& plan,
                                     const FileReader& read) {
  nlohmann::ordered_json json = plan_json(plan);
  if (split.recipe.empty() || !plan.step) return json;
  const Recipe recipe = find_recipe(split.recipe, read);
  json["recipe"] = head_json(recipe);
  json["recipe"]["published"] = published_json(recipe);
  json["recipe"]["planned"] = planned_json(recipe.published, compared(plan, plan.step->estimate));
  if (const std::optional<Estimate> theirs = by_engine_of(recipe, plan, read)) {
    json["recipe"]["engine"] = recipe.engine;
    json["recipe"]["planned_by_engine"] = planned_json(recipe.published, compared(plan, *theirs));
  }
  return json;
}

std::string recipes_text(const std::string& name) {
  if (!name.empty()) return one_recipe(find_recipe(name));
  TextTable table({{"recipe"}, {"run"}, {"cluster"}, {"published"}, {"source"}});
  for (const std::string_view one : recipe_names()) {
    const Recipe recipe = find_recipe(std::string(one));
    table.add_row(
        {recipe.name, recipe.title, recipe.cluster, result_words(recipe.published), recipe.source});
  }
  return table.str();
}

nlohmann::ordered_json recipes_json(const std::string& name) {
  nlohmann::ordered_json recipes = nlohmann::ordered_json::array();
  for (const std::string_view one : recipe_names()) {
    if (!name.empty() && name != one) continue;
    const Recipe recipe = find_recipe(std::string(one));
    recipes.push_back(head_json(recipe));
    recipes.back()["published"] = published_json(recipe);
  }
  if (recipes.empty()) find_recipe(name);  // says which there are
  return recipes;
}

}  // namespace tessera
