// The flags that say which run a command is about.
#pragma once

#include "cli/command.h"
#include "spec/run_file/run_source.h"

namespace tessera {

void add_file_and_set(CLI::App& app, RunSource& source);
void add_mesh(CLI::App& app, RunSource& source);
void add_ranks(CLI::App& app, RunSource& source);

}  // namespace tessera
