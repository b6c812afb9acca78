// Every command of the tessera program.
#pragma once

#include <vector>

#include "cli/command.h"
#include "launch/environment.h"

namespace tessera {

std::vector<Command> add_all_commands(CLI::App& root, const Environment& environment);

}  // namespace tessera
