// What a whole training of so many tokens takes, from the step of a priced plan.
#pragma once

#include <optional>

#include "plan/plan.h"

namespace tessera {

struct Training {
  double steps = 0, days = 0, device_hours = 0, usd = 0;
};

Training training_of(const Plan& plan);

// The same with the time that failures and saves take, and how often it fails. Nothing where it
// never ends.
struct TrainingWithFailures {
  Training training;
  double failures = 0;
};
std::optional<TrainingWithFailures> training_with_failures(const Plan& plan);

}  // namespace tessera
