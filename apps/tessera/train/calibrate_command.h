// `tessera calibrate`.
#pragma once

#include <string>

#include "cli/command.h"
#include "launch/environment.h"

namespace tessera {

struct CalibrateCommandOptions {
  std::string out = "machine.toml";
  std::string device = "cpu";
  bool quick = false;
  bool serving = false;  // measure frames of serving alone, and keep the rest of what `out` has
};
// The environment must outlive the command.
Command add_calibrate(CLI::App& root, const Environment& environment);
int run_calibrate(const CalibrateCommandOptions& options, const Environment& environment,
                  Console& console);

}  // namespace tessera
