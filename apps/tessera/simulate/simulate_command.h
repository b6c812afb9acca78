// `tessera simulate`.
#pragma once

#include <string>

#include "api/simulate.h"
#include "cli/command.h"

namespace tessera {

struct SimulateOptions {
  SimulateQuery query = {};
  std::string svg = "", trace = "", csv = "";  // files to write to; empty: none
  bool json = false;
};
Command add_simulate(CLI::App& root);
int run_simulate(const SimulateOptions& options, Console& console);

}  // namespace tessera
