#include <memory>
#include <nlohmann/json.hpp>

#include "cli/flags.h"
#include "cli/help.h"
#include "presets/presets_command.h"

namespace tessera {

Command add_presets(CLI::App& root) {
  CLI::App* app =
      add_command(root, "presets",
                  {"List the models, devices, clusters, engines or recipes that are known by name.",
                   "tessera presets devices", "tessera explain memory --model llama-3-405b"});
  auto options = std::make_shared<PresetsOptions>();
  add_choice(*app, "kind", options->query.kind, kPresetKinds, "what to list (default models)");
  add_text(*app, "name", options->query.name, "NAME", "of recipes: this one, with its settings");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_presets(*options, console); }};
}

int run_presets(const PresetsOptions& options, Console& console) {
  console.out << (options.json ? presets_json(options.query).dump(2) + '\n'
                               : fitted(console, presets_text(options.query)));
  return 0;
}

}  // namespace tessera
