// The best strategy for a model on a cluster.
#pragma once

#include <cstdint>
#include <functional>

#include "tessera/answer.h"

namespace tessera {

// Called between rounds on the calling thread; false ends the search with what it has.
using OnSearchRound = std::function<bool(int64_t groups_done, int64_t groups)>;

// As `tessera search --json`: the best plans, and why.
Json search(const Json& request, const OnSearchRound& on_round = nullptr);

}  // namespace tessera
