// A plan for programs: docs/plan-json.md names every field. What a run measures has the same head
// and the same entries of "ranks", so that the two can be compared value by value.
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

// schema_version, kind, world, mesh, parameters.
nlohmann::ordered_json document_head(std::string_view kind, const Mesh& mesh,
                                     int64_t num_parameters);
// An entry of "ranks", from planned or measured values. Without a digest, neither it nor the
// number of instructions is there.
nlohmann::ordered_json rank_json(const Mesh& mesh, const PlannedRank& rank);

}  // namespace tessera
