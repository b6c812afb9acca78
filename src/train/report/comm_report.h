// Communication time of a run, per group and operation: for metrics.jsonl, summary.json and people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm_clock.h"

namespace tessera {

// {"dp all_reduce": 1.25}: milliseconds per step that compute waited, between two readings of one
// executor's clock that lie `steps` apart.
nlohmann::ordered_json exposed_ms(std::span<const CommTime> before, std::span<const CommTime> now,
                                  int64_t steps);

// That compute waited for any of it.
double exposed_seconds(std::span<const CommTime> times);

// What one rank reports, and the summary of all: "communication_time" of summary.json, in
// milliseconds per step, the mean and the largest over the ranks that took part.
nlohmann::ordered_json comm_times_json(std::span<const CommTime> times, int64_t steps);
nlohmann::ordered_json merge_comm_times(const std::vector<nlohmann::ordered_json>& ranks);

// The same as a table; empty when nothing was communicated.
std::string comm_time_table(const nlohmann::ordered_json& communication_time);

}  // namespace tessera
