#include "sim/schedule/schedule_memory.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

int64_t change_of(StagePass pass, const StageBytes& stage) {
  switch (pass) {
    case StagePass::kForward:
      return stage.kept;
    case StagePass::kBackward:
      return -stage.kept;
    case StagePass::kInputGrad:
      return -(stage.kept - stage.for_weights);
    case StagePass::kWeightGrad:
      return -stage.for_weights;
  }
  return 0;
}

}  // namespace

std::vector<int64_t> peak_activations(const PipelineSchedule& schedule,
                                      std::span<const StageBytes> stages) {
  TESSERA_CHECK(stages.size() == static_cast<size_t>(schedule.stages), "{} stages have bytes of {}",
                schedule.stages, stages.size());
  for (const StageBytes& stage : stages) {
    TESSERA_CHECK(stage.for_weights >= 0 && stage.kept >= stage.for_weights,
                  "a stage keeps {} bytes, of which {} for its weights", stage.kept,
                  stage.for_weights);
  }
  std::vector<int64_t> peaks;
  for (const std::vector<StageAction>& actions : schedule.actions) {
    int64_t live = 0, peak = 0;
    for (const StageAction& action : actions) {
      const int64_t change = change_of(action.pass, stages[static_cast<size_t>(action.stage)]);
      require(!__builtin_add_overflow(live, change, &live),
              "activations of {} micro-batches are more than 2^63 bytes", schedule.micro_batches);
      peak = std::max(peak, live);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace tessera
