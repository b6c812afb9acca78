#include "train/session/spike_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace tessera {

void SpikeGuard::Mean::add(double x, int64_t window) {
  count = std::min(count + 1, window);
  value += (x - value) / static_cast<double>(count);
}

SpikeGuard::SpikeGuard(const TrainSpec& train)
    : on_(train.skip_spikes),
      norm_factor_(train.spike_norm),
      loss_factor_(train.spike_loss),
      window_(train.spike_window),
      limit_(train.spike_limit) {}

double SpikeGuard::limit_of(const Mean& mean, double factor) const {
  const bool known = on_ && factor > 0 && mean.count == window_;
  return known ? factor * mean.value : std::numeric_limits<double>::infinity();
}

void SpikeGuard::apply_to(StepParams& params) const {
  params.most_norm = limit_of(norm_, norm_factor_);
  params.most_loss = limit_of(loss_, loss_factor_);
  params.step -= skipped_;
}

std::string SpikeGuard::reason(const StepParams& params, const StepOutcome& outcome) const {
  if (!on_) return "";
  if (!outcome.finite()) {
    return fmt::format("the loss is {} and the norm of the gradient {}", outcome.loss,
                       outcome.grad_norm);
  }
  if (outcome.grad_norm > params.most_norm) {
    return fmt::format("the norm of the gradient, {:.4g}, is above {:g} times its mean of {:.4g}",
                       outcome.grad_norm, norm_factor_, norm_.value);
  }
  if (outcome.loss > params.most_loss) {
    return fmt::format("the loss, {:.4g}, is above {:g} times its mean of {:.4g}", outcome.loss,
                       loss_factor_, loss_.value);
  }
  return "";
}

void SpikeGuard::after_update(const StepOutcome& outcome) {
  in_a_row_ = 0;
  if (!on_) return;
  norm_.add(outcome.grad_norm, window_);
  loss_.add(outcome.loss, window_);
}

void SpikeGuard::after_skip(const StepParams& params, const StepOutcome& outcome) {
  ++skipped_;
  ++in_a_row_;
  if (!outcome.finite()) return;
  norm_.add(std::min(outcome.grad_norm, params.most_norm), window_);
  loss_.add(std::min(outcome.loss, params.most_loss), window_);
}

nlohmann::json SpikeGuard::state() const {
  return {{"norm_mean", norm_.value},  {"norm_count", norm_.count}, {"loss_mean", loss_.value},
          {"loss_count", loss_.count}, {"skipped", skipped_},       {"in_a_row", in_a_row_}};
}

void SpikeGuard::restore(const nlohmann::json& state) {
  norm_ = {state.at("norm_mean").get<double>(), state.at("norm_count").get<int64_t>()};
  loss_ = {state.at("loss_mean").get<double>(), state.at("loss_count").get<int64_t>()};
  skipped_ = state.at("skipped").get<int64_t>();
  in_a_row_ = state.at("in_a_row").get<int64_t>();
}

}  // namespace tessera
