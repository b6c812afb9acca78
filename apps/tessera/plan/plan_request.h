// The flags of a model, a cluster and a split.
#pragma once

#include "api/split.h"
#include "cli/command.h"

namespace tessera {

// The model and its split.
void add_split(CLI::App& app, SplitFlags& request);
// With --tokens.
void add_failures(CLI::App& app, FailureFlags& failures);
void add_request(CLI::App& app, SplitFlags& request);

}  // namespace tessera
