// `tessera simulate`.
#pragma once

#include <string>

#include "api/simulate.h"
#include "cli/command.h"
#include "simulate/simulate_serve.h"

namespace tessera {

struct SimulateOptions {
  SimulateQuery query = {};
  SimulateServeFlags serve = {};               // a model that is served instead of a step
  std::string svg = "", trace = "", csv = "";  // files to write to; empty: none
  bool json = false;
};
Command add_simulate(CLI::App& root);
int run_simulate(const SimulateOptions& options, Console& console);

}  // namespace tessera
