// What was planned beside what was measured. `plan` is a document of kind "plan" and `measured` one
// of kind "run"; both have the same entries of "ranks".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tessera {

// "planned | measured" for every memory category, and every group and collective. Arenas are what
// the engine asked for; where the run says what the operating system counted, rows of that follow,
// with what is not arenas.
std::string planned_measured_table(const nlohmann::ordered_json& plan,
                                   const nlohmann::ordered_json& measured);

// Every value of every rank equal.
bool plan_equals_measured(const nlohmann::ordered_json& plan,
                          const nlohmann::ordered_json& measured);

}  // namespace tessera
