// `tessera bench`, with everything below it but the calculators.
#pragma once

#include <vector>

#include "cli/command.h"
#include "launch/environment.h"

namespace tessera {

// The environment must outlive the commands.
std::vector<Command> add_bench(CLI::App& root, const Environment& environment);

}  // namespace tessera
