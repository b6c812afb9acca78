// What the ranks of a run tell whoever waits for them, so that it knows how long their end may take
// and what it would lose by not waiting.
#pragma once

#include <cstdint>

namespace tessera {

// What a rank is at; how long each may take differs.
enum class RunSection : uint32_t { kSetup, kStep, kEvaluation, kSave, kEnd };
constexpr const char* name_of(RunSection section) {
  switch (section) {
    case RunSection::kSetup:
      return "setup";
    case RunSection::kStep:
      return "step";
    case RunSection::kEvaluation:
      return "evaluation";
    case RunSection::kSave:
      return "save";
    case RunSection::kEnd:
      return "end";
  }
  return "";
}

struct RunState {
  int64_t steps_done = 0;
  int64_t longest_step_us = 0;
  int64_t weight_bytes = 0;     // of the file that is written at the end
  bool saving = false;          // the weights are being written
  int64_t saving_us = 0;        // for how long they were when the file last grew
  int64_t saved_step = 0;       // whose weights are in the run directory; 0: none, -1: that failed
  int64_t checkpoint_step = 0;  // of the newest checkpoint that the run has made; 0: none
  bool opened = false;          // the run directory is this run's, whatever was there before
  RunSection section = RunSection::kSetup;  // that this rank is in
  int64_t step = 0;                         // at hand; 0: before the first

  // Whether whoever starts the run again loses nothing.
  [[nodiscard]] bool checkpointed() const {
    return checkpoint_step > 0 && checkpoint_step == steps_done;
  }
};

}  // namespace tessera
