// Pipeline schedules as data: what each pipeline rank does, in order. The compiler lowers these
// lists, the dry run times them, the simulator draws them. Pure: the same arguments give the same
// lists.
//
// A model is cut into stages 0 .. stages-1; `rank_of_stage` says who runs which. A rank goes
// through its list in order. Nothing in a list sends or receives: what an action needs from another
// rank follows from it (`needs` in replay.h), so sends and receives always match.
//
// In every named schedule the micro-batches of one stage come in ascending order, in each pass:
// sums over micro-batches are made in the same order whatever the schedule.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spec/choices.h"

namespace tessera {

// What a rank does for one micro-batch of one stage. kBackward is kInputGrad and kWeightGrad
// together; a stage and micro-batch has either that one or those two.
enum class StagePass : uint8_t { kForward, kBackward, kInputGrad, kWeightGrad };

struct StageAction {
  StagePass pass = StagePass::kForward;
  int stage = 0;
  int micro_batch = 0;
  bool operator==(const StageAction&) const = default;
};

struct PipelineSchedule {
  std::string name;
  int ranks = 1, stages = 1, micro_batches = 1;
  std::vector<int> rank_of_stage;                 // by stage
  std::vector<std::vector<StageAction>> actions;  // by pipeline rank, in order
  // Weights are updated between the micro-batches of a step, by each stage on its own (PipeDream).
  bool asynchronous = false;
};

// Stages times micro-batches that a schedule is written out for.
inline constexpr int64_t kMaxScheduleCells = int64_t{1} << 22;

// `virtual_stages` is how many stages a rank holds; 0:
// as many as the schedule has by itself. `group` is the number of micro-batches that the
// interleaved schedule takes through one stage before the next one of the same rank; 0: `ranks`.
// Throws ConfigError with the nearest valid choice for arguments that the schedule cannot have.
// run_schedule.h is the way in from a run file.
PipelineSchedule make_schedule(PipelineKind kind, int ranks, int virtual_stages, int micro_batches,
                               int group = 0);
// By its name.
PipelineSchedule make_schedule(std::string_view name, int ranks, int virtual_stages,
                               int micro_batches, int group = 0);

// Every stage has every micro-batch once, forward before input gradient before weight gradient, on
// the rank that holds the stage; and no rank waits for ever. Otherwise throws ConfigError: what is
// wrong, and the schedule with the failing cell marked.
void check_schedule(const PipelineSchedule& schedule);

// A cell as it is written in CSV files and messages: "F0.3" is the forward of stage 0,
// micro-batch 3.
char letter_of(StagePass pass);  // F, B, I or W
std::string cell_text(const StageAction& action);

}  // namespace tessera
