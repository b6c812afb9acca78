// What the device of a run can do at most, measured: the rate of a large product and the bandwidth
// of a large copy, each by a Program of that one kernel. The floor under a step's time is counted
// with these.
#pragma once

#include "compile/step.h"

namespace tessera {

struct DeviceRates {
  double flops_per_s = 0;  // of a product in the run's type
  double bytes_per_s = 0;  // of a copy: read plus written
};

// With the threads of one rank, or on GPU 0. `step` names device and type. Takes about a second.
DeviceRates measure_device_rates(const StepGraph& step);

}  // namespace tessera
