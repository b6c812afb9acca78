// The search for the best strategy by closed forms: every split of the devices, every micro-batch,
// schedule, sharding and recomputation, with bounds that leave out only what cannot be among the
// best. The answer is that of an exhaustive search, and the same for any number of threads.
//
//   SearchRequest request{.workload = workload};
//   const SearchOutcome outcome = search_strategies(request);
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/step/cost_model.h"
#include "plan/memory_limit.h"
#include "search/candidate.h"
#include "search/space.h"

namespace tessera {

// What one request may take, however many searches it comes to: some seconds of two cores.
struct SearchBudget {
  static constexpr int64_t kMostPrices = 8'000'000;
  int64_t prices_left = kMostPrices;
};

struct SearchRequest {
  Workload workload;
  Objective objective = Objective::kTime;
  FixedAxes fixed = {};
  int64_t keep = 64;        // plans of different cells (see below)
  int64_t limit_bytes = 0;  // of a device; 0: what the cluster's have for tensors
  bool pareto = false;      // also every plan that no other beats in both memory and time
  bool exhaustive = false;  // without bounds, for tests
  int threads = 1;
  SearchBudget* budget = nullptr;  // shared with other searches; nullptr: without an end
};

// Why configurations are not among the best.
enum class Rejected : uint8_t {
  kStates,      // parameters, gradients and states alone are too large
  kPeak,        // the peak is too large
  kRecompute,   // computes more again than memory asks for
  kAlike,       // stages that were chosen one by one come out as equal ones
  kBound,       // its work alone takes longer than the kept plans
  kSlower,      // was priced, and others are better
  kNotAllowed,  // stages that were chosen one by one are not what --recompute or --for allow
};
inline constexpr int kNumRejected = 7;
std::string_view reason_of(Rejected rejected);

struct SearchOutcome {
  // The best of each cell, best first. A cell is a split with its micro-batch, schedule and virtual
  // stages: plans that differ in sharding or recomputation alone would fill the list otherwise.
  std::vector<Candidate> best;
  std::vector<Candidate> front;  // with `pareto`: fastest first, each with less memory
  std::vector<SplitRejection> splits_rejected;
  int64_t splits = 0;
  int64_t groups = 0, groups_done = 0;
  int64_t configurations = 0;  // of the groups that were done or left out
  int64_t priced = 0;          // closed-form prices of memory, of time, or of both
  std::array<int64_t, kNumRejected> rejected = {};
  std::optional<Candidate> nearest;  // where nothing fits: the one that needs the least memory
  bool stopped = false;              // what follows was not tried
  bool out_of_budget = false;        // and nobody asked to stop
};

struct SearchProgress {
  int64_t groups = 0, groups_done = 0;
  int64_t configurations = 0;
  double best_step_s = 0;  // 0: none fits so far
};
// Called between rounds on the calling thread; false stops the search with what it has.
using OnProgress = std::function<bool(const SearchProgress&)>;

// Throws ConfigError for a workload that cannot be, or that no split divides.
SearchOutcome search_strategies(const SearchRequest& request, const OnProgress& progress = nullptr);

}  // namespace tessera
