// `tessera plan --serve`.
#pragma once

#include <string>

#include "api/serve_plan.h"
#include "cli/command.h"

namespace tessera {

// The flags that only --serve has; what a plan of a run has too is read there.
void add_serve_plan(CLI::App& app, ServePlanQuery& query);
// Throws ConfigError where one of them was given without --serve.
void refuse_serve_flags(const ServePlanQuery& query);

struct ServePlanOutput {
  bool json = false;
  bool check = false;    // exit 3 unless it fits
  std::string svg = "";  // a file to draw to; empty: none
};
int run_serve_plan(const ServePlanQuery& query, const ServePlanOutput& output, Console& console);

}  // namespace tessera
