#include "cost/formulas/failures.h"

#include <algorithm>
#include <cmath>

#include "base/steady_exp.h"

namespace tessera {

double young_interval(const FailureModel& model) { return std::sqrt(2 * model.stall * model.mtbf); }

double daly_interval(const FailureModel& model) {
  const double ratio = model.stall / (2 * model.mtbf);
  if (ratio >= 1) return model.mtbf;
  return young_interval(model) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - model.stall;
}

// A segment is trained and saved without a failure with probability e^(-s/M); each failure before
// costs what was done so far and a restart, which may fail too. The mean of that is M e^(R/M)
// (e^(s/M) - 1). A save that is not yet safe when the next segment begins makes a failure cost that
// much more: the time of writing, where a failure comes.
double expected_time(const FailureModel& model, double interval) {
  const double segment = interval + model.stall;
  const double undone = std::min(model.write, segment);
  return model.mtbf * steady_exp((model.restart + undone) / model.mtbf) *
         (steady_exp(segment / model.mtbf) - 1);
}

double goodput(const FailureModel& model, double interval) {
  const double time = expected_time(model, interval);
  return time > 0 ? interval / time : 0;
}

// The goodput has one maximum: thirds of the bracket are thrown away.
double best_interval(const FailureModel& model) {
  double low = 0, high = std::max(model.mtbf, 4 * young_interval(model));
  constexpr int kRounds = 100;
  for (int i = 0; i < kRounds; ++i) {
    const double third = (high - low) / 3;
    if (goodput(model, low + third) < goodput(model, high - third)) {
      low += third;
    } else {
      high -= third;
    }
  }
  return (low + high) / 2;
}

}  // namespace tessera
