// `tessera simulate --serve`.
#pragma once

#include <string>

#include "api/serve_plan.h"
#include "cli/command.h"
#include "serve/predict/simulate_serving.h"

namespace tessera {

struct SimulateServeFlags {
  ServePlanQuery plan;  // of the model, its mesh and its memory
  serve::ServeTraffic traffic;
};
void add_simulate_serve(CLI::App& app, SimulateServeFlags& flags);
// Throws ConfigError where one of them was given without --serve.
void refuse_simulate_serve(const SimulateServeFlags& flags);

struct SimulateServeOutput {
  bool json = false;
  std::string svg = "", trace = "";  // files to write to; empty: none
};
int run_simulate_serve(const SimulateServeFlags& flags, const SimulateServeOutput& output,
                       Console& console);

}  // namespace tessera
