// Measures the machine it runs on: kernels at many shapes in the way that training runs them,
// collectives between ranks as threads, and what ranks on the same cores cost each other. The
// results are fits (cost/hardware/measured_machine.h); which sizes are tried is in calibrate.cc.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cost/hardware/measured_machine.h"

namespace tessera {

struct CalibrateOptions {
  bool quick = false;  // fewer sizes and repetitions, f32 only: to see that it works
  TrainDevice device = TrainDevice::kCpu;  // kCuda: kernels only
};

// Rates of one thread and of all cores, for a description of the machine.
struct PeakRates {
  double f32_flops_per_s = 0;   // the fastest product that was tried, on one thread
  double bf16_flops_per_s = 0;  // 0: not tried
  double bytes_per_s = 0;       // of a large copy, one thread: read plus written
};

struct CalibrateResult {
  MeasuredMachine machine;  // `source` is left empty
  PeakRates rates;
};

// Calls `progress` with what comes next. Takes about a minute, --quick a tenth of that.
CalibrateResult calibrate(const CalibrateOptions& options,
                          const std::function<void(const std::string& what)>& progress);

}  // namespace tessera
