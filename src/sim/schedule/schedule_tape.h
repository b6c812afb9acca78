// A pipeline schedule as one list of steps, in an order that its data allows: what the schedule
// simulator plays. Worked out once for a shape, with everything that does not depend on times.
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compile/pipeline/schedule/schedule.h"

namespace tessera {

// One action: begins when the rank is free and `source` is there, and what it makes is there at
// `target` when it has been sent.
struct TapeStep {
  uint32_t rank = 0;
  uint32_t cost = 0;    // kCosts for each stage
  uint32_t source = 0;  // slot 0 is always there
  uint32_t target = 0;  // slot 1 is never read
};

// A schedule in one order that its data allows, and what does not depend on times.
class ScheduleTape {
 public:
  static constexpr int kCosts = 4;  // of a stage, in the order of StagePass

  // Takes a schedule that make_schedule made, or that check_schedule accepts.
  explicit ScheduleTape(const PipelineSchedule& schedule);

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int stages() const { return stages_; }
  [[nodiscard]] std::span<const TapeStep> steps() const { return steps_; }
  [[nodiscard]] size_t num_slots() const { return num_slots_; }
  // By rank: the source of its first action, which keeps its slot to the end.
  [[nodiscard]] std::span<const uint32_t> first_source() const { return first_source_; }
  // By cost: how many actions have it, and what they send over; link 0: nothing is sent.
  [[nodiscard]] std::span<const int> actions_of_cost() const { return actions_of_cost_; }
  [[nodiscard]] std::span<const uint32_t> link_of_cost() const { return link_of_cost_; }
  [[nodiscard]] size_t num_links() const { return num_links_; }
  [[nodiscard]] std::span<const int> rank_of_stage() const { return rank_of_stage_; }
  // By rank: micro-batches of a stage between forward and their last use, at most at one time.
  [[nodiscard]] std::span<const int> peak_live() const { return peak_live_; }

 private:
  friend class TapeBuilder;

  int ranks_ = 1, stages_ = 1;
  std::vector<int> rank_of_stage_;
  std::vector<TapeStep> steps_;
  uint32_t num_slots_ = 2;
  std::vector<uint32_t> first_source_;
  std::vector<int> actions_of_cost_;
  std::vector<uint32_t> link_of_cost_;
  uint32_t num_links_ = 1;
  std::vector<int> peak_live_;
};

}  // namespace tessera
