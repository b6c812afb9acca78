#include <memory>

#include "base/text.h"
#include "commands.h"
#include "flags.h"
#include "help.h"
#include "spec/model_catalogue.h"
#include "spec/model_size.h"
#include "spec/trainable.h"

namespace tessera {
namespace {

struct Row {
  std::string name;
  ModelEntry entry;
  ModelSize size;
};

std::vector<Row> rows() {
  std::vector<Row> result;
  for (const std::string_view name : model_names()) {
    ModelEntry entry = find_model(std::string(name));
    const ModelSize size = model_size(entry.model);
    result.push_back({std::string(name), std::move(entry), size});
  }
  return result;
}

std::string billions(int64_t count) {
  const auto value = static_cast<double>(count);
  return value < 1e9 ? fmt::format("{:.1f} M", value / 1e6) : fmt::format("{:.1f} B", value / 1e9);
}

std::string table() {
  TextTable text({{"model"},
                  {"parameters", Align::kRight},
                  {"active", Align::kRight},
                  {"layers", Align::kRight},
                  {"hidden", Align::kRight},
                  {"heads", Align::kRight},
                  {"train"},
                  {"source"}});
  for (const Row& row : rows()) {
    const ModelSpec& m = row.entry.model;
    text.add_row({row.name, billions(row.size.total),
                  m.experts > 0 ? billions(row.size.active) : "", fmt::format("{}", m.layers),
                  fmt::format("{}", m.hidden), fmt::format("{}/{}", m.heads, m.kv_heads),
                  untrainable_choice(m).empty() ? "yes" : "plan only", row.entry.source});
  }
  return text.str();
}

nlohmann::ordered_json json() {
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  for (const Row& row : rows()) {
    nlohmann::ordered_json model = {{"name", row.name},
                                    {"parameters", row.size.total},
                                    {"active_parameters", row.size.active},
                                    {"layers", row.entry.model.layers},
                                    {"hidden", row.entry.model.hidden},
                                    {"heads", row.entry.model.heads},
                                    {"kv_heads", row.entry.model.kv_heads},
                                    {"source", row.entry.source}};
    const std::string choice = untrainable_choice(row.entry.model);
    model["trainable"] = choice.empty();
    if (!choice.empty()) model["why_not"] = choice;
    models.push_back(std::move(model));
  }
  return {{"schema_version", kSchemaVersion}, {"models", std::move(models)}};
}

}  // namespace

Command add_presets(CLI::App& root) {
  CLI::App* app = root.add_subcommand("presets");
  set_help(*app, {"List the models that are known by name, with their size and source.",
                  "tessera presets", "tessera explain memory --model llama-3-405b"});
  auto options = std::make_shared<PresetsOptions>();
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_presets(*options, console); }};
}

int run_presets(const PresetsOptions& options, Console& console) {
  console.out << (options.json ? json().dump(2) + "\n" : table());
  return 0;
}

}  // namespace tessera
