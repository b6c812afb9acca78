// The end of a search's report: its plans as flags of `tessera plan`, what would give a plan that
// `tessera train` can run, and what to type next.
#pragma once

#include <string>

#include "search/report.h"

namespace tessera {

// The first plans as flags; empty where none can be said so.
std::string flags_text(const SearchReport& report);

// The flags that the strategy has otherwise than they are fixed: "--zero 3 --recompute full".
std::string other_flags(const FixedAxes& fixed, const Strategy& strategy);

std::string no_run_text(const SearchReport& report);

// "next: tessera plan ...".
std::string next_text(const SearchReport& report);

}  // namespace tessera
