#include "sim/schedule/schedule_tape.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"

namespace tessera {
namespace {

constexpr uint32_t kAlwaysThere = 0, kNeverRead = 1, kNoLink = 0;

uint32_t cost_index(StagePass pass, int stage) {
  return static_cast<uint32_t>(stage * ScheduleTape::kCosts + static_cast<int>(pass));
}

// The neighbour that gets what an action makes, or -1.
int receiving_stage(StagePass pass, int stage, int stages) {
  switch (pass) {
    case StagePass::kForward:
      return stage + 1 < stages ? stage + 1 : -1;
    case StagePass::kBackward:
    case StagePass::kInputGrad:
      return stage - 1;
    case StagePass::kWeightGrad:
      return -1;
  }
  return -1;
}

// The neighbour that an action waits for, or -1.
int awaited_stage(StagePass pass, int stage, int stages) {
  switch (pass) {
    case StagePass::kForward:
      return stage - 1;
    case StagePass::kBackward:
    case StagePass::kInputGrad:
      return stage + 1 < stages ? stage + 1 : -1;
    case StagePass::kWeightGrad:
      return -1;
  }
  return -1;
}

}  // namespace

// Goes round the ranks and takes one action of each that only needs what earlier rounds made: so
// neighbours on the tape do not wait for each other, and few messages are under way at a time. What
// an action needs of its own rank is there by the order of the rank's list.
class TapeBuilder {
 public:
  TapeBuilder(const PipelineSchedule& schedule, ScheduleTape& tape)
      : schedule_(schedule), tape_(tape) {}

  void build() {
    tape_.ranks_ = schedule_.ranks;
    tape_.stages_ = schedule_.stages;
    tape_.rank_of_stage_ = schedule_.rank_of_stage;
    number_links();
    count_live();
    order();
  }

 private:
  struct Sent {
    uint32_t slot = kAlwaysThere;  // that is: not made yet
    int round = 0;
  };

  [[nodiscard]] int rank_of(int stage) const { return schedule_.rank_of_stage[index(stage)]; }

  void number_links() {
    std::vector<uint32_t> link_between(index(schedule_.ranks) * index(schedule_.ranks), kNoLink);
    tape_.link_of_cost_.assign(index(schedule_.stages) * ScheduleTape::kCosts, kNoLink);
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      for (int pass = 0; pass < ScheduleTape::kCosts; ++pass) {
        const auto kind = static_cast<StagePass>(pass);
        const int to = receiving_stage(kind, stage, schedule_.stages);
        if (to < 0 || rank_of(to) == rank_of(stage)) continue;
        uint32_t& link =
            link_between[index(rank_of(stage)) * index(schedule_.ranks) + index(rank_of(to))];
        if (link == kNoLink) link = tape_.num_links_++;
        tape_.link_of_cost_[cost_index(kind, stage)] = link;
      }
    }
  }

  void count_live() {
    for (const std::vector<StageAction>& actions : schedule_.actions) {
      int live = 0, peak = 0;
      for (const StageAction& action : actions) {
        if (action.pass == StagePass::kForward) {
          peak = std::max(peak, ++live);
        } else if (action.pass != StagePass::kInputGrad) {
          --live;
        }
      }
      tape_.peak_live_.push_back(peak);
    }
  }

  void order() {
    size_t left = 0;
    for (const auto& actions : schedule_.actions) left += actions.size();
    tape_.steps_.reserve(left);
    tape_.actions_of_cost_.assign(index(schedule_.stages) * ScheduleTape::kCosts, 0);
    tape_.first_source_.assign(index(schedule_.ranks), kAlwaysThere);
    sent_.resize(2 * index(schedule_.stages) * index(schedule_.micro_batches));
    done_.assign(index(schedule_.ranks), 0);
    for (int round = 1; tape_.steps_.size() < left; ++round) {
      const size_t before = tape_.steps_.size();
      for (int rank = 0; rank < schedule_.ranks; ++rank) advance(rank, round);
      TESSERA_CHECK(tape_.steps_.size() > before, "schedule {} is stuck", schedule_.name);
    }
  }

  // What `stage` sends on for a micro-batch: its output, or the gradient of its input.
  Sent& sent(bool output, int stage, int micro_batch) {
    const size_t row = (output ? 0 : index(schedule_.stages)) + index(stage);
    return sent_[row * index(schedule_.micro_batches) + index(micro_batch)];
  }

  void advance(int rank, int round) {
    const std::vector<StageAction>& actions = schedule_.actions[index(rank)];
    size_t& done = done_[index(rank)];
    if (done == actions.size()) return;
    const auto& [pass, stage, micro_batch] = actions[done];
    TapeStep step{.rank = static_cast<uint32_t>(rank),
                  .cost = cost_index(pass, stage),
                  .source = kAlwaysThere,
                  .target = kNeverRead};
    const bool forward = pass == StagePass::kForward;
    const int awaited = awaited_stage(pass, stage, schedule_.stages);
    if (awaited >= 0) {
      const Sent& needed = sent(forward, awaited, micro_batch);
      // On this rank it is there when its turn comes, and has no slot.
      if (rank_of(awaited) != rank) {
        if (needed.slot == kAlwaysThere || needed.round == round) return;
        step.source = needed.slot;
      }
    }
    if (done == 0) {
      tape_.first_source_[index(rank)] = step.source;
    } else if (step.source != kAlwaysThere) {
      free_.push_back(step.source);
    }
    const int to = receiving_stage(pass, stage, schedule_.stages);
    if (to >= 0 && rank_of(to) != rank) {
      step.target = new_slot();
      sent(forward, stage, micro_batch) = {step.target, round};
    }
    ++tape_.actions_of_cost_[step.cost];
    tape_.steps_.push_back(step);
    ++done;
  }

  // Slots of one step may be the same: it reads before it writes.
  uint32_t new_slot() {
    if (free_.empty()) return tape_.num_slots_++;
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  const PipelineSchedule& schedule_;
  ScheduleTape& tape_;
  std::vector<Sent> sent_;
  std::vector<size_t> done_;
  std::vector<uint32_t> free_;
};

ScheduleTape::ScheduleTape(const PipelineSchedule& schedule) {
  TapeBuilder(schedule, *this).build();
}

}  // namespace tessera
