// What a rank has done, in the shape of its plan.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/executor.h"

namespace tessera {

// An entry of "ranks" in summary.json: arenas, traffic of one step, executed instructions. `steps`
// is how many the executor has run; each must have moved the same bytes.
nlohmann::ordered_json measured_rank_json(const Executor& executor, int64_t steps);

}  // namespace tessera
