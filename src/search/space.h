// The space that a search covers, in two halves. A group fixes what the work of a layer depends on:
// split, micro-batch, sequence and context parallelism, order of ranks. The variants of a group are
// all schedules times all shardings times all ways of recomputing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost/step/strategy.h"
#include "spec/emit/system_rules.h"

namespace tessera {

// How much backward computes again.
enum class RecomputeWay : uint8_t {
  kNone,
  kSelective,
  kFull,  // every layer
  kSome,  // some layers of a rank, as many as memory asks for
};
inline constexpr std::array<std::string_view, 4> kRecomputeWays = {"none", "selective", "full",
                                                                   "some"};
RecomputeWay way_of(const Strategy& strategy);

// What a search may choose. 0 (zero: -1), an empty list: free.
struct FixedAxes {
  int64_t tp = 0, pp = 0, dp = 0, cp = 0, ep = 0;
  int64_t micro_batch = 0;
  int64_t zero = -1;
  std::vector<PipelineKind> schedules = {};  // of pipelines; pp 1 has none
  std::vector<RecomputeWay> recompute = {};
  const SystemRules* system = nullptr;  // whose settings must be able to say it
  bool sayable = false;                 // run files must be able to say it; with `system` as well
  int64_t virtual_stages = 0;
};

// Whether the strategy has what is fixed.
bool keeps_fixed(const FixedAxes& fixed, const Strategy& strategy);
// Also that a system, or a run file, can say its stages and what they compute again.
bool is_allowed(const FixedAxes& fixed, const Workload& workload, const Strategy& strategy);

struct SplitRejection {
  std::string reason;
  int64_t splits = 0;
};

struct SearchSpace {
  std::vector<Strategy> groups;  // each with the first of its variants
  int64_t splits = 0;            // all that the number of devices has
  std::vector<SplitRejection> rejected;
};
// More would take more than half a GiB and some seconds to list.
inline constexpr int64_t kMostGroups = 400'000;
// Throws ConfigError where there are more groups.
SearchSpace search_space(const Workload& workload, const FixedAxes& fixed);

struct ScheduleChoice {
  PipelineKind kind = PipelineKind::k1F1B;
  int64_t virtual_stages = 1;
  std::vector<int64_t> stage_layers = {};  // empty: even
};
struct ShardingChoice {
  int64_t zero = 0;
  int64_t shard = 0;
  bool release_after_forward = true;
};
struct Variants {
  std::vector<ScheduleChoice> schedules;
  std::vector<ShardingChoice> shardings;
  bool none = true, full = true;
  bool selective = false;        // whether selective recomputation saves anything
  bool some = true;              // layers of a rank, but not all
  int64_t recompute_layers = 0;  // full recomputation of 1 to so many layers of a rank
  int64_t stage_choices = 0;     // stages that differ in layers and in what they compute again
  [[nodiscard]] int64_t parts() const { return some ? recompute_layers - 1 : 0; }
  // Ways of recomputing.
  [[nodiscard]] int64_t recomputations() const {
    return (none ? 1 : 0) + (selective ? 1 : 0) + (full ? 1 : 0) + parts();
  }
  [[nodiscard]] int64_t count() const;
};
Variants variants_of(const Workload& workload, const Strategy& group, const FixedAxes& fixed);

}  // namespace tessera
