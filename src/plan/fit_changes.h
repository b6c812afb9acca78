// Changes to a run that does not fit that make it fit, cheapest first.
//
// All single changes and pairs of fit_space.h, and triples where these are too few, are priced by
// closed forms; the cheapest are then planned exactly until enough of them fit.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "compile/scale/scale_plan.h"
#include "cost/engine/engine.h"
#include "cost/hardware/cluster.h"
#include "plan/estimate_run.h"
#include "plan/fit_advice.h"

namespace tessera {

// `spec` must have gone through resolve(). The number of ranks and the batch stay.
FitAdvice advise_fit(const RunSpec& spec, const OpenSettings& open, const Cluster& cluster,
                     const Engine& engine, ScalePlanner& planner, size_t most = 3,
                     BlockProducts products = BlockProducts::kAsTrained);

// The cheapest of these changes that leaves the keys of `said` ("parallel.tp") as they are and does
// not change the precision of gradients; nothing where none was found.
std::optional<FitChange> cheapest_fit(const RunSpec& spec, const OpenSettings& open,
                                      const Cluster& cluster, const Engine& engine,
                                      ScalePlanner& planner, const std::set<std::string>& said,
                                      BlockProducts products = BlockProducts::kAsTrained);

}  // namespace tessera
