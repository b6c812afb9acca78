// How a rank says why the job failed: the agent prints the first reason it finds in the world.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "comm/world.h"

namespace tessera {

// Aborts the world with "rank 2: TEXT", so that the agent and all peers know who failed. Does
// nothing to the reason if another failure came first.
void abort_as_rank(CommWorld& world, const std::string& text);

// The rank that a reason begins with ("rank 2: …", "rank 2 (pid 4711) …").
std::optional<int> rank_of_reason(std::string_view reason);

// The rank that another one has waited for in vain ("group dp: rank 0 waited 60.000 s in … for rank
// 2 (pid 4711, running) …"): it is the one that hangs, not the one that says so.
std::optional<int> rank_waited_for(std::string_view reason);

}  // namespace tessera
