#include "train/session/loss_scale.h"

#include <algorithm>

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

}  // namespace tessera
