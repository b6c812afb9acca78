// What `tessera plan --serve` says: for people, and as JSON (docs/plan-json.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cost/hardware/cluster.h"
#include "cost/step/estimate.h"
#include "serve/plan/decode_floor.h"
#include "serve/plan/serve_changes.h"
#include "serve/plan/serve_estimate.h"

namespace tessera::serve {

struct ServeReport {
  ServeEstimate estimate;
  std::optional<Cluster> cluster;  // whose device prices a step
  std::string memory_of;           // whose memory it is
  std::vector<Guess> guesses;      // what nobody said
  // Lengths of sequences that are counted; the last is max_context.
  std::vector<int64_t> contexts;
  bool has_advice = false;
  std::vector<ServeChange> changes;  // where it does not fit
};

// 1k, 4k and 32k, as far as they are no longer than the longest sequence, and that.
std::vector<int64_t> reported_contexts(int64_t max_context);

// What decides how many pages there are: the stage with the least room for them.
struct PageTerms {
  const StageEstimate* stage = nullptr;
  int64_t limit_bytes = 0;   // of a rank; 0: of all together
  int64_t beside_bytes = 0;  // on it, or on all
  int64_t line_bytes = 0;    // that caches may need to begin on a line each
  int64_t page_bytes = 0;
};
PageTerms page_terms(const ServeEstimate& estimate);

// One, 16, 64 and as many as fit, at every reported length; the device must be known.
std::vector<DecodeFloor> decode_floors(const ServeReport& report);

std::string serve_plan_text(const ServeReport& report);
nlohmann::ordered_json serve_plan_json(const ServeReport& report);
// What does not fit: which rank has too little, and by how much; the same with what would help.
std::string serve_misfit_sentence(const ServeReport& report);
std::string serve_misfit_text(const ServeReport& report);

}  // namespace tessera::serve
