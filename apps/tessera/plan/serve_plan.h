// `tessera plan --serve`.
#pragma once

#include <string>

#include "api/serve_plan.h"
#include "api/split.h"
#include "cli/command.h"

namespace tessera {

// The flags that only --serve has; what a plan of a run has too is read there.
void add_serve_plan(CLI::App& app, ServePlanQuery& query);
// Throws ConfigError where one of them was given without --serve.
void refuse_serve_flags(const ServePlanQuery& query);

// --mesh, --tp, --pp, --ep and --dtype mean the same for runs and for models that are served;
// whatever else says how a run is split has no place there.
void use_split(const RunSource& source, const SplitFlags& split, ServePlanQuery& query);
// Throws ConfigError where a flag of a run to train was `given` beside --serve.
void refuse_for_serving(bool given, std::string_view flag);

struct ServePlanOutput {
  bool json = false;
  bool check = false;    // exit 3 unless it fits
  std::string svg = "";  // a file to draw to; empty: none
};
int run_serve_plan(const ServePlanQuery& query, const ServePlanOutput& output, Console& console);

}  // namespace tessera
