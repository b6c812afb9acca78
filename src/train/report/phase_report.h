// Where a step's time goes on one rank, for metrics.jsonl.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "runtime/phase_clock.h"

namespace tessera {

// Readings of a rank's clocks, in seconds since their start.
struct PhaseTimes {
  PassSeconds passes{};
  double exposed = 0;  // that compute waited for communication
  double data = 0;     // that it took to fill in the next step's tokens
};

// {"forward": 51.2, "backward": 98.7, "update": 3.1, "comm_exposed": 12.9, "data": 0.1}:
// milliseconds per step between two readings that lie `steps` apart. "recompute" only where there
// is any.
nlohmann::ordered_json phase_ms(const PhaseTimes& before, const PhaseTimes& now, int64_t steps);

// `bytes` of every rank, as a list; of more than 64 ranks {"ranks", "least", "most"}, so that a
// line stays short.
nlohmann::ordered_json memory_of_ranks(const std::vector<int64_t>& bytes);

}  // namespace tessera
