// The closed-form price of a strategy: memory of every stage, and the time of a step.
//
// A CostModel belongs to one workload and remembers what its strategies share (the times of a
// layer for a split and a micro-batch), so a search over millions of strategies costs a few hundred
// operations each. Not thread-safe: give every thread its own copy.
#pragma once

#include <memory>

#include "cost/estimate.h"
#include "cost/strategy.h"

namespace tessera {

class CostModel {
 public:
  explicit CostModel(Workload workload);  // ConfigError for a workload that cannot be
  CostModel(const CostModel& other);
  CostModel& operator=(const CostModel& other) = delete;
  ~CostModel();

  [[nodiscard]] const Workload& workload() const;

  // For strategies that why_impossible() accepts. The two agree to the last bit.
  [[nodiscard]] QuickEstimate quick(const Strategy& strategy);
  [[nodiscard]] Estimate estimate(const Strategy& strategy);

  // At most `quick().step_s` of every strategy with the same tp, cp, ep, pp, dp and recompute,
  // whatever its micro-batch, schedule and sharding: for pruning.
  [[nodiscard]] double lower_bound_s(const Strategy& strategy);

 private:
  struct Memo;
  std::unique_ptr<Memo> memo_;
};

}  // namespace tessera
