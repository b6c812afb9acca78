// `tessera plan`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/plan.h"
#include "api/serve_plan.h"
#include "cli/command.h"

namespace tessera {

struct PlanOptions {
  PlanQuery query = {};
  bool json = false;
  bool check = false;    // exit 3 unless the run fits
  bool program = false;  // print one rank's program instead
  int64_t rank = 0;
  std::string svg = "", placements = "";  // files to draw to; empty: none
  std::vector<std::string> vary = {};     // "KEY=A,B,…": a table of these instead
  std::string emit = "";                  // a system: its settings instead
  ServePlanQuery serve = {};              // with a model: what serving that takes instead
};
Command add_plan(CLI::App& root);
int run_plan(const PlanOptions& options, Console& console);

}  // namespace tessera
