// What a whole training of so many tokens takes, from the step of a priced plan.
#pragma once

#include "plan/plan.h"

namespace tessera {

struct Training {
  double steps = 0, days = 0, device_hours = 0, usd = 0;
};

Training training_of(const Plan& plan);

}  // namespace tessera
