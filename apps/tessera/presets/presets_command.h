// `tessera presets`.
#pragma once

#include "api/presets.h"
#include "cli/command.h"

namespace tessera {

struct PresetsOptions {
  PresetsQuery query;
  bool json = false;
};
Command add_presets(CLI::App& root);
int run_presets(const PresetsOptions& options, Console& console);

}  // namespace tessera
