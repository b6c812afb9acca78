// The idle part of a pipeline in closed form, for stages that take equally long and messages that
// take no time, and as the schedule gives it when it is played through.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compile/pipeline/schedule/replay.h"
#include "spec/choices.h"

namespace tessera {

// One stage of one rank and one micro-batch; all stages of a rank together take as long.
struct BubbleTimes {
  double forward = 1;
  double input_grad = 1;
  double weight_grad = 1;
  [[nodiscard]] double total() const { return forward + input_grad + weight_grad; }
};

struct BubbleShape {
  PipelineKind schedule = PipelineKind::k1F1B;
  int64_t ranks = 1;           // P
  int64_t micro_batches = 1;   // M
  int64_t virtual_stages = 1;  // v: stages of a rank, for "interleaved"
  BubbleTimes times;
};

struct Bubble {
  double idle = 0;   // of a rank, in the unit of the times
  double busy = 0;   // of a rank
  double share = 0;  // idle / (idle + busy)
  std::string formula;
};

// Nothing where there is no closed form: other schedules, and numbers of micro-batches for which
// the form does not hold.
std::optional<Bubble> closed_form_bubble(const BubbleShape& shape);

// What every schedule does, step by step; the closed forms are tested against it.
ScheduleFacts play(const BubbleShape& shape);

// The fewest micro-batches with which 1F1B or GPipe idles less than `share` of the time.
double fewest_micro_batches(double ranks, double share);

// Micro-batches whose activations stage `stage` of a 1F1B pipeline holds at most.
int64_t one_f_one_b_in_flight(int64_t ranks, int64_t micro_batches, int64_t stage);

}  // namespace tessera
