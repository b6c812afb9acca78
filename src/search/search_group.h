// The prices of one group of a search: its schedules, shardings, ways of recomputing and choices of
// stages, with what bounds leave out of them.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "search/search.h"

namespace tessera {

// What came of one group.
struct GroupOutcome {
  std::vector<Candidate> best;  // of each schedule that fits
  Front front;
  std::optional<Candidate> smallest;  // where it does not fit: step_s is 0
  std::array<int64_t, kNumRejected> rejected = {};
  int64_t priced = 0;
};

// What the rounds before have found.
struct Known {
  std::optional<double> threshold;  // score of the last plan that is kept so far
  const Front& front;
  bool nothing_fits = false;  // the plan that comes nearest is asked for

  // Whether no plan that takes at least this can be kept.
  [[nodiscard]] bool beats(const SearchRequest& request, double least_s,
                           int64_t least_bytes) const {
    if (request.exhaustive || !threshold.has_value()) return false;
    if (first_score(request.objective, least_s, least_bytes) <= *threshold) return false;
    return !request.pareto || front.beats(least_s, least_bytes);
  }
};

// Pure: the same for any number of threads.
GroupOutcome search_group(const SearchRequest& request, CostModel& model, int64_t limit,
                          const Known& known, const Strategy& group);

}  // namespace tessera
