// Why a plan is as it is, in a few sentences: what fills the fullest rank, what the step waits for.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace tessera {

struct PlanReason {
  std::string title;  // "memory", "bubble", "exposed tp"
  std::string text;
};
// The largest first within memory and within time; times only where a cluster prices the step.
std::vector<PlanReason> reasons_of(const Plan& plan);

}  // namespace tessera
