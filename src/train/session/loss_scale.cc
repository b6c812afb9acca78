#include "train/session/loss_scale.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tessera {

LossScaler::LossScaler(const TrainSpec& train)
    : dynamic_(train.dtype == DType::kF16 && train.loss_scale == 0),
      interval_(train.loss_scale_interval),
      hysteresis_(train.loss_scale_hysteresis),
      overflows_left_(train.loss_scale_hysteresis) {
  if (train.dtype == DType::kF16) scale_ = dynamic_ ? kFirstLossScale : train.loss_scale;
}

void LossScaler::apply_to(StepParams& params) const {
  params.loss_scale = scale_;
  params.step -= skipped_;
}

void LossScaler::after_update() {
  if (!dynamic_ || ++clean_ < interval_) return;
  clean_ = 0;
  overflows_left_ = hysteresis_;
  scale_ = std::min(2 * scale_, kMaxLossScale);
}

void LossScaler::after_overflow() {
  ++skipped_;
  clean_ = 0;
  if (!dynamic_) return;
  overflows_left_ = std::max<int64_t>(0, overflows_left_ - 1);
  if (overflows_left_ == 0) scale_ = std::max(1.0, scale_ / 2);
}

nlohmann::json LossScaler::state() const {
  return {{"scale", scale_},
          {"clean", clean_},
          {"overflows_left", overflows_left_},
          {"skipped", skipped_}};
}

void LossScaler::restore(const nlohmann::json& state) {
  if (dynamic_) scale_ = state.at("scale").get<double>();  // a fixed one is the run file's
  clean_ = state.at("clean").get<int64_t>();
  overflows_left_ = state.at("overflows_left").get<int64_t>();
  skipped_ = state.at("skipped").get<int64_t>();
}

}  // namespace tessera
