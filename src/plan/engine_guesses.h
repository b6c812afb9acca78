// Which of an engine's constants a price rests on that nobody measured or counted.
#pragma once

#include <vector>

#include "cost/engine/engine.h"
#include "cost/step/estimate.h"
#include "cost/step/strategy.h"

namespace tessera {

// Adds the constants that are defaults or borrowed from another engine, and that matter here: a
// tenth more of one moves the step by a thousandth or more. The largest effect first.
void add_engine_guesses(const Engine& engine, const Workload& workload, const Strategy& strategy,
                        std::vector<Guess>& guesses);

}  // namespace tessera
