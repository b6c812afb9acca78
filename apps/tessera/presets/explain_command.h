// `tessera explain`.
#pragma once

#include <vector>

#include "api/explain.h"
#include "cli/command.h"

namespace tessera {

struct ExplainOptions {
  ExplainQuery query;
  bool json = false;
};
// `bench` must be there: its `formula` is the same.
std::vector<Command> add_explain(CLI::App& root);
int run_explain(const ExplainOptions& options, Console& console);

}  // namespace tessera
