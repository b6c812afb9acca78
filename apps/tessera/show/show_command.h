// `tessera show`: one command for each topic of api/show.
#pragma once

#include <vector>

#include "cli/command.h"

namespace tessera {

std::vector<Command> add_show(CLI::App& root);

}  // namespace tessera
