// How often each expert of each layer was chosen in a step.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "runtime/executor.h"

namespace tessera {

using RouterLoad = std::vector<std::vector<double>>;  // [layer][expert]; empty: no experts

// Adds the counts of all ranks since the last call, and starts again from zero. A collective call
// on `control` where the model has experts.
RouterLoad take_router_load(Executor& executor, Communicator& control);

// {"load": [[...], ...], "max_over_mean": the busiest expert of any layer over an even spread}
nlohmann::ordered_json to_json(const RouterLoad& load);

}  // namespace tessera
