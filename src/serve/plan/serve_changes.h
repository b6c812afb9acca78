// What would make a model fit that does not: one change at a time.
#pragma once

#include <string>
#include <vector>

#include "serve/plan/serve_estimate.h"

namespace tessera::serve {

// Something else to ask for, with which it fits.
struct ServeChange {
  std::string flag, value;  // "--dtype", "bf16"
  int64_t pages = 0;        // that it then has
};

// `estimate` does not fit. A smaller type, a shorter context and, up to so many ranks, more of
// them: each by itself; of tp and pp the fewest that fit.
std::vector<ServeChange> changes_that_fit(const RunSpec& model, const ServeEstimate& estimate,
                                          int64_t most_ranks);

}  // namespace tessera::serve
