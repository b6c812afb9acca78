// A dry run of a schedule: every rank goes through its list in order and begins an action as soon
// as what the action needs is there. Gives times where actions have costs, and finds schedules in
// which ranks would wait for each other for ever. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "compile/pipeline/schedule/schedule.h"

namespace tessera {

// What a stage makes of a micro-batch that others need.
struct StageProduct {
  enum class Kind : uint8_t { kOutput, kInputGradient };
  Kind kind = Kind::kOutput;
  int stage = 0;
  int micro_batch = 0;
  bool operator==(const StageProduct&) const = default;
};

// At most two products.
class StageNeeds {
 public:
  void add(const StageProduct& product) { products_[count_++] = product; }
  [[nodiscard]] const StageProduct* begin() const { return products_.data(); }
  [[nodiscard]] const StageProduct* end() const { return products_.data() + count_; }

 private:
  std::array<StageProduct, 2> products_;
  size_t count_ = 0;
};

// What must exist before `action` can begin, from its own rank or from another. Forward: the output
// of the stage before. Backward and input gradient: this stage's output, and the input gradient of
// the stage after. Weight gradient: this stage's input gradient.
StageNeeds needs(const StageAction& action, int stages);

struct StageCosts {
  double forward = 1;
  double input_grad = 1;
  double weight_grad = 1;  // a backward costs input_grad + weight_grad
};

struct PassCosts {
  double forward = 1;
  double input_grad = 1;
  double weight_grad = 1;
  double transfer = 0;  // from the end of a product until another rank has it
  // Where they differ: by stage, and by boundary between stages, instead of the ones above.
  std::vector<StageCosts> stages = {};
  std::vector<double> transfers = {};

  [[nodiscard]] double of(const StageAction& action) const;
  [[nodiscard]] double transfer_of(const StageProduct& product) const;
};

struct TimedAction {
  StageAction action;
  double begin = 0;
  double end = 0;
};

struct ScheduleTimeline {
  std::vector<std::vector<TimedAction>> ranks;  // in order; ends early where a rank is stuck
  double makespan = 0;                          // the latest end
};

// Places and numbers must be in range; actions may be missing, doubled or in a bad order.
ScheduleTimeline replay(const PipelineSchedule& schedule, const PassCosts& costs = {});

struct RankFacts {
  double busy = 0;
  double idle_inside = 0;  // between the begin of its first and the end of its last action
  int peak_live = 0;       // micro-batches of a stage between forward and their last use (B or W)
};

struct ScheduleFacts {
  double makespan = 0;
  double bubble = 0;  // the part of ranks * makespan in which ranks are idle, 0 to 1
  int peak_live = 0;  // of the worst rank
  std::vector<RankFacts> ranks;
};

ScheduleFacts facts_of(const ScheduleTimeline& timeline);

}  // namespace tessera
