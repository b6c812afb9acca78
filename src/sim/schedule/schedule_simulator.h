// Times of a pipeline schedule, thousands per second: the order of the schedule is worked out once,
// then played with as many sets of stage times as a search has. Every action begins as soon as its
// rank is free and what it needs has arrived; the times are exact for that rule. Pure.
//
//   const ScheduleTape tape(make_schedule("zb-h1", 8, 0, 24));
//   ScheduleSimulator simulator;
//   simulator.run(tape, uniform_times(8, {.forward = 18.5, .input_grad = 18.1, .weight_grad
//   = 9.3}))
#pragma once

#include <span>
#include <vector>

#include "sim/schedule/schedule_tape.h"

namespace tessera {

// Seconds, or any other unit. Never negative.
struct StageTimes {
  double forward = 1;
  double input_grad = 1;
  double weight_grad = 1;  // a backward takes input_grad + weight_grad
  // Parts of forward and of input_grad that need no message; a ScheduleTape does without.
  double early_forward = 0;
  double early_input_grad = 0;
  // The end of a backward, when the gradient that it was given is no longer needed; likewise.
  double after_gradient = 0;
};

// Times of a message from one stage to the next or back, where another rank has that stage.
struct MessageTimes {
  double latency = 0;   // from the end of the transfer until it can be used
  double transfer = 0;  // bytes over bandwidth; messages of one rank to another follow each other
};

struct PipelineTimes {
  std::vector<StageTimes> stages;
  std::vector<MessageTimes> messages;  // by boundary, one fewer than stages; empty: all free
};

// The same for all stages and all boundaries.
PipelineTimes uniform_times(int stages, const StageTimes& stage, const MessageTimes& message = {});

struct PipelineOutcome {
  double makespan = 0;  // from the first begin to the last end
  double busiest = 0;   // the most work of one rank
  // The longest time from the first begin to the last end of one rank: what a step takes where
  // ranks go on to the next step without waiting for each other.
  double longest_span = 0;
  double work = 0;  // of all ranks

  // The part of ranks * makespan in which ranks are idle; the same of the longest span, with the
  // busiest rank's work in it, as the papers on zero bubbles count it.
  double bubble = 0;
  double span_bubble = 0;
  friend bool operator==(const PipelineOutcome&, const PipelineOutcome&) = default;
};

struct RankOutcome {
  double begin = 0, end = 0;  // of its first and its last action
  double busy = 0;
  [[nodiscard]] double idle_inside() const { return end - begin - busy; }
};

// Plays tapes. Holds the memory for it, so that a run allocates nothing once its largest tape has
// been played. One per thread.
class ScheduleSimulator {
 public:
  static constexpr size_t kLanes = 8;  // sets of times that are played side by side

  // `ranks` may be null.
  PipelineOutcome run(const ScheduleTape& tape, const PipelineTimes& times,
                      std::vector<RankOutcome>* ranks = nullptr);

  // The same for each of many; the same numbers, several times faster.
  void run_many(const ScheduleTape& tape, std::span<const PipelineTimes> times,
                std::span<PipelineOutcome> outcomes);

 private:
  void prepare(const ScheduleTape& tape, size_t width);
  void load(const ScheduleTape& tape, const PipelineTimes& times, size_t lane, size_t width);
  template <size_t kWidth>
  void play(const ScheduleTape& tape);
  PipelineOutcome outcome(const ScheduleTape& tape, size_t lane, size_t width,
                          std::vector<RankOutcome>* ranks);

  [[nodiscard]] bool links_can_block(const ScheduleTape& tape, size_t width);

  // Those of all lanes beside each other, `width` at a time.
  std::vector<double> clock_, slots_, links_, cost_, latency_, transfer_;
  std::vector<double> work_;                                // by rank, of one lane
  std::vector<double> longest_transfer_, shortest_action_;  // by link
};

}  // namespace tessera
