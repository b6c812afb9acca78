// Which steps of a run are left out: those whose gradient or loss is not finite, or far above what
// it was of late (train.skip_spikes). The limits are part of what a step is told, so that the
// update itself keeps to them; every rank sees the same sums, so every rank's guard does the same.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/step_params.h"
#include "spec/run_spec.h"

namespace tessera {

class SpikeGuard {
 public:
  // Without train.skip_spikes it lets everything pass.
  explicit SpikeGuard(const TrainSpec& train);

  [[nodiscard]] bool on() const { return on_; }
  [[nodiscard]] int64_t skipped() const { return skipped_; }  // steps, in all
  // Whether as many steps were skipped one after another as end a run.
  [[nodiscard]] bool gives_up() const { return in_a_row_ >= limit_; }
  [[nodiscard]] int64_t in_a_row() const { return in_a_row_; }

  // The limits, and the number of the update: skipped steps do not count for Adam's correction.
  void apply_to(StepParams& params) const;
  // Why a step with these params changed nothing: "the norm of the gradient, 93.1, is above 5 times
  // its mean of 1.2"; empty: it did, or the guard is off.
  [[nodiscard]] std::string reason(const StepParams& params, const StepOutcome& outcome) const;
  void after_update(const StepOutcome& outcome);
  // What was above a limit counts as that limit: a run whose loss has risen for good goes on.
  void after_skip(const StepParams& params, const StepOutcome& outcome);

  // What a checkpoint keeps of it, and back: the same bits.
  [[nodiscard]] nlohmann::json state() const;
  void restore(const nlohmann::json& state);

 private:
  // A mean that forgets: each value counts 1/n of it, where n is the number of values so far, or
  // the window if that is less.
  struct Mean {
    double value = 0;
    int64_t count = 0;
    void add(double x, int64_t window);
  };
  [[nodiscard]] double limit_of(const Mean& mean, double factor) const;

  bool on_;
  double norm_factor_, loss_factor_;
  int64_t window_, limit_;
  Mean norm_, loss_;
  int64_t skipped_ = 0;
  int64_t in_a_row_ = 0;
};

}  // namespace tessera
