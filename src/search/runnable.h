// The best plan that `tessera train` can run. The cost model's engine keeps other things than our
// Programs do, so the fastest plans that fit by its word may not fit by theirs, and a plan of the
// same split that keeps less would. Every cell of a search is therefore searched again under the
// memory that its own Programs were found to lack.
#pragma once

#include <optional>
#include <vector>

#include "search/engine_file.h"
#include "search/search.h"
#include "search/simulated_strategy.h"

namespace tessera {

struct RunnablePlan {
  SimulatedStrategy plan;
  EngineFile file;
};

struct RunnableRequest {
  const SearchRequest& search;
  const EngineNames& names;
  const FileReader& read;
  SearchProgress at = {};  // that `progress` is told meanwhile
};

// `plans`: what a search has found, best first; their cells come first, then those of all that run
// files can say, also where the cost model finds them too large. The same for any number of
// threads; `progress` may stop it.
std::optional<RunnablePlan> best_runnable(const RunnableRequest& request,
                                          const std::vector<SimulatedStrategy>& plans,
                                          const OnProgress& progress);

// Whether any can be run: looks at the smallest plans only.
std::optional<RunnablePlan> smallest_runnable(const RunnableRequest& request,
                                              const OnProgress& progress);

}  // namespace tessera
