// The command line as a function.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal.h"
#include "launch/environment.h"

namespace tessera {

// Parses `args` (without the program's name), runs the command and returns the exit code
// (docs/cli.md). Failures end as one line on console.err; nothing is thrown. The environment says
// whether a launcher started this process, and is what ranks that it starts inherit.
int run_cli(const std::vector<std::string>& args, Console& console,
            const Environment& environment = {});

}  // namespace tessera
