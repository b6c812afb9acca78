// [eval] while a run trains: the Program of the run, told to change nothing, on samples that it is
// not trained on. No memory beside the planned, and on every mesh what one rank would compute.
#pragma once

#include <cstdint>
#include <optional>

#include "train/session/held_out.h"

namespace tessera {

class Evaluation {
 public:
  // Both must outlive it.
  Evaluation(const RunSpec& spec, const HeldOut& held_out) : spec_(spec), held_out_(held_out) {}

  // Whether step `step` ends with one.
  [[nodiscard]] bool due_after(int64_t step) const;
  // All ranks call it. The inputs of `executor` are those of the evaluation afterwards.
  void run(Executor& executor, Communicator& control);

  [[nodiscard]] std::optional<double> loss() const { return loss_; }  // of the last one
  [[nodiscard]] int64_t passes() const { return passes_; }            // of the Program, in all
  [[nodiscard]] double seconds() const { return seconds_; }           // in all

 private:
  const RunSpec& spec_;
  const HeldOut& held_out_;
  std::optional<double> loss_;
  int64_t passes_ = 0;
  double seconds_ = 0;
};

}  // namespace tessera
