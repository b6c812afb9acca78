// The command line as a function.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/terminal.h"
#include "launch/environment.h"

namespace tessera {

// Adds what a program can do to its tree of commands.
using AddCommands = std::vector<Command> (*)(CLI::App& root, const Environment& environment);

// Parses `args` (without the program's name), runs the command and returns the exit code
// (docs/cli.md). Failures end as one line on console.err; nothing is thrown. The environment says
// whether a launcher started this process, and is what ranks that it starts inherit.
int run_cli(const std::vector<std::string>& args, Console& console, const Environment& environment,
            AddCommands add);

// `main` of a program with these commands. The environment is read here and nowhere below.
int run_program(int argc, char** argv, AddCommands add);

}  // namespace tessera
