#include "train/session/evaluation.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "train/report/router_load.h"
#include "train/session/step_params.h"
#include "train/session_clock.h"

namespace tessera {

double loss_of_all(const std::vector<SetLoss>& sets) {
  double loss = 0, tokens = 0;
  for (const SetLoss& set : sets) {
    loss += set.loss * set.tokens;
    tokens += set.tokens;
  }
  return loss / std::max(1.0, tokens);
}

void add_losses(const std::vector<SetLoss>& sets, nlohmann::ordered_json& json) {
  if (sets.empty()) return;
  const double all = loss_of_all(sets);
  json["valid_loss"] = all;
  json["valid_perplexity"] = std::exp(all);
  for (const SetLoss& set : sets) {
    if (set.name.empty()) continue;
    json["valid"][set.name + ".loss"] = set.loss;
    json["valid"][set.name + ".perplexity"] = std::exp(set.loss);
  }
}

bool Evaluation::due_after(int64_t step) const {
  if (sets_.empty()) return false;
  return step % spec_.eval.every == 0 || step == spec_.train.steps;
}

SetLoss Evaluation::measure(const HeldOut& set, Executor& executor) {
  StepParams params = step_params(spec_, 1);
  params.evaluate = true;
  double loss = 0, tokens = 0;
  for (int64_t batch = 1; batch <= set.batches; ++batch) {
    fill_inputs(executor, spec_, batch, set.samples.fill, set.samples.starts);
    const StepOutcome outcome = executor.run(params);
    loss += outcome.loss * outcome.tokens;
    tokens += outcome.tokens;
  }
  passes_ += set.batches;
  return {set.name, loss / std::max(1.0, tokens), tokens};
}

void Evaluation::run(Executor& executor, Communicator& control) {
  const HostTimer timer;
  executor.set_probe({});
  executor.count_times(false);
  last_.clear();
  for (const HeldOut& set : sets_) last_.push_back(measure(set, executor));
  (void)take_router_load(executor, control);
  executor.count_times(true);
  seconds_ += timer.seconds();
}

}  // namespace tessera
