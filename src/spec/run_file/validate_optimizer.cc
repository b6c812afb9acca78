#include "spec/run_file/validate_optimizer.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "spec/name_patterns.h"
#include "spec/run_file/asynchronous.h"

namespace tessera {
namespace {

constexpr double kUsualShare = 0.1;

void check_schedule(const OptimizerSpec& o, int64_t steps) {
  const std::string_view name = name_of(o.schedule);
  require_config(
      o.min_lr <= o.lr,
      "optimizer.min_lr = {} is above lr = {}, from which the learning rate falls to it; "
      "use min_lr up to {}",
      o.min_lr, o.lr, o.lr);
  require_config(
      o.schedule != LrSchedule::kConstant || o.min_lr == 0,
      "optimizer.min_lr = {}: with schedule = \"constant\" the learning rate stays at lr "
      "= {}; leave min_lr out, or use schedule = \"linear\"",
      o.min_lr, o.lr);
  const bool falls_late = o.schedule == LrSchedule::kWsd;
  require_config(falls_late || (o.decay_steps == 0 && o.decay_share == 0),
                 "optimizer.{} is for schedule = \"wsd\"; leave it out with schedule = \"{}\"",
                 o.decay_steps > 0 ? "decay_steps" : "decay_share", name);
  require_config(o.decay_steps == 0 || o.decay_share == 0,
                 "optimizer.decay_steps = {} and decay_share = {} both say when the learning rate "
                 "falls; leave one of them out",
                 o.decay_steps, o.decay_share);
  require_config(o.decay_steps <= steps,
                 "optimizer.decay_steps = {} is more than train.steps = {}; use decay_steps up to "
                 "{}, or decay_share",
                 o.decay_steps, steps, steps);
}

void check_kind(const OptimizerSpec& o) {
  const OptimizerSpec usual;
  if (o.kind == OptimizerKind::kAdamW) {
    require_config(o.momentum == 0 && !o.nesterov,
                   "optimizer.{} is for kind = \"sgd\"; adamw has betas",
                   o.nesterov ? "nesterov" : "momentum");
    return;
  }
  require_config(o.beta1 == usual.beta1 && o.beta2 == usual.beta2,
                 "optimizer.betas are for kind = \"adamw\"; leave them out with kind = \"sgd\", "
                 "which has momentum");
  require_config(o.eps == usual.eps,
                 "optimizer.eps is for kind = \"adamw\"; leave it out with kind = \"sgd\"");
  require_config(!o.nesterov || o.momentum > 0,
                 "optimizer.nesterov = true looks ahead along the momentum, which is 0; use "
                 "momentum = 0.9, or nesterov = false");
}

void check_spikes(const RunSpec& spec) {
  const TrainSpec& train = spec.train;
  for (const auto& [key, factor] :
       {std::pair("spike_norm", train.spike_norm), std::pair("spike_loss", train.spike_loss)}) {
    require_config(factor == 0 || factor > 1,
                   "train.{} = {} would skip every other step: it is a multiple of the mean; use a "
                   "number above 1, or 0 to leave it out",
                   key, factor);
  }
  require_config(!train.skip_spikes || !is_asynchronous(spec.parallel),
                 "train.skip_spikes = true: with schedule = \"{}\" a stage updates before the norm "
                 "and the loss of the step are known; use skip_spikes = false, or schedule = "
                 "\"1f1b\"",
                 spec.parallel.schedule.text());
}

}  // namespace

void check_optimizer(const RunSpec& spec) {
  const OptimizerSpec& o = spec.optimizer;
  check_schedule(o, spec.train.steps);
  check_kind(o);
  (void)name_patterns("optimizer.weight_decay_also", o.weight_decay_also);
  (void)name_patterns("optimizer.weight_decay_not", o.weight_decay_not);
  check_spikes(spec);
}

int64_t falling_steps(const OptimizerSpec& o, int64_t steps) {
  if (o.decay_steps > 0) return o.decay_steps;
  const double share = o.decay_share > 0 ? o.decay_share : kUsualShare;
  return std::clamp<int64_t>(std::llround(share * static_cast<double>(steps)), 1, steps);
}

}  // namespace tessera
