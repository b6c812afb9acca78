// A plan for programs: docs/plan-json.md names every field. Searches, simulations and what a run
// measures are made of the same parts, so that they can be compared value by value.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "plan/plan.h"

namespace tessera {

inline constexpr int kPlanSchemaVersion = 2;

// Ranks are listed up to kMostListedRanks.
nlohmann::ordered_json plan_json(const Plan& plan);
// With every rank that the plan has, for comparison with a run.
nlohmann::ordered_json full_plan_json(const Plan& plan);

// Bytes in GB (10^9), which stand beside bytes where people read them.
double gigabytes_of(int64_t bytes);

// schema_version, kind, world, mesh, parameters.
nlohmann::ordered_json document_head(std::string_view kind, const Mesh& mesh,
                                     int64_t num_parameters);
// "cluster": of so many devices in all, a run may use fewer.
nlohmann::ordered_json cluster_json(const Cluster& cluster, int64_t devices_in_all);
// "time": compute_s is forward_s and backward_s, of which recompute_s is part. With bubble,
// optimizer and exposed communication it adds up to step_s.
nlohmann::ordered_json time_json(const StepTime& time);
// "rates"
nlohmann::ordered_json rates_json(const Estimate& estimate);
// "guesses"
nlohmann::ordered_json guesses_json(const std::vector<Guess>& guesses);
// An entry of "ranks", from planned or measured values. Without a digest, neither it nor the
// number of instructions is there.
nlohmann::ordered_json rank_json(const Mesh& mesh, const PlannedRank& rank);

}  // namespace tessera
