// The loss scale of f16 training. Gradients of f16 activations are multiplied by it where backward
// begins and divided by it in the update, so that small ones do not vanish. A step whose gradient
// is not finite on any rank changes nothing and counts as an overflow; every rank sees the same
// sums, so every rank's scaler does the same.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "runtime/dispatch.h"
#include "spec/run_spec.h"

namespace tessera {

// Gradients are sums over tokens, and that of a logit lies between -scale and scale: more would
// overflow f16 (65504) whenever a label is unlikely.
inline constexpr double kMaxLossScale = 32768;
inline constexpr double kFirstLossScale = 1024;

class LossScaler {
 public:
  // Types other than f16 need no scale: theirs is 1 and stays 1.
  explicit LossScaler(const TrainSpec& train);

  [[nodiscard]] double scale() const { return scale_; }
  [[nodiscard]] int64_t skipped() const { return skipped_; }  // steps without an update
  // Whether the step after an overflow has a lower scale, or will have one after some more.
  [[nodiscard]] bool can_fall() const { return dynamic_ && scale_ > 1; }

  // The scale, and the number of the update: skipped steps do not count for Adam's correction.
  void apply_to(StepParams& params) const;
  void after_update();
  // Every overflow but the first `hysteresis` - 1 after a growth halves the scale.
  void after_overflow();

  // What a checkpoint keeps of it, and back: the same bits.
  [[nodiscard]] nlohmann::json state() const;
  void restore(const nlohmann::json& state);

 private:
  bool dynamic_;
  double scale_ = 1;
  int64_t interval_;    // clean steps until the scale doubles
  int64_t hysteresis_;  // overflows that a scale survives, less one
  int64_t clean_ = 0;
  int64_t overflows_left_;
  int64_t skipped_ = 0;
};

}  // namespace tessera
