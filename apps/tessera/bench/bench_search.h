// `tessera bench search`: how long a search by closed forms takes.
#pragma once

#include "cli/command.h"
#include "search/search_command.h"

namespace tessera {

Command add_bench_search(CLI::App& bench);
int run_bench_search(const SearchOptions& options, Console& console);

}  // namespace tessera
