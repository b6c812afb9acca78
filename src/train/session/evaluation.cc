#include "train/session/evaluation.h"

#include <algorithm>

#include "train/report/router_load.h"
#include "train/session/session_clock.h"
#include "train/session/step_params.h"

namespace tessera {

bool Evaluation::due_after(int64_t step) const {
  if (held_out_.empty()) return false;
  return step % spec_.eval.every == 0 || step == spec_.train.steps;
}

void Evaluation::run(Executor& executor, Communicator& control) {
  const HostTimer timer;
  executor.set_probe({});
  executor.count_times(false);
  StepParams params = step_params(spec_, 1);
  params.evaluate = true;
  double loss = 0, tokens = 0;
  for (int64_t batch = 1; batch <= held_out_.batches; ++batch) {
    fill_inputs(executor, spec_, batch, held_out_.samples);
    const StepOutcome outcome = executor.run(params);
    loss += outcome.loss * outcome.tokens;
    tokens += outcome.tokens;
  }
  passes_ += held_out_.batches;
  (void)take_router_load(executor, control);
  executor.count_times(true);
  loss_ = loss / std::max(1.0, tokens);
  seconds_ += timer.seconds();
}

}  // namespace tessera
