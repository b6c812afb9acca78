// Changes to a run that does not fit that make it fit, cheapest first.
//
// All single changes and pairs of fit_space.h, and triples where these are too few, are priced by
// closed forms; the cheapest are then planned exactly until enough of them fit.
#pragma once

#include "compile/scale/scale_plan.h"
#include "cost/engine/engine.h"
#include "cost/hardware/cluster.h"
#include "plan/fit_advice.h"

namespace tessera {

// `spec` must have gone through resolve(). The number of ranks and the batch stay.
FitAdvice advise_fit(const RunSpec& spec, const OpenSettings& open, const Cluster& cluster,
                     const Engine& engine, ScalePlanner& planner, size_t most = 3);

}  // namespace tessera
