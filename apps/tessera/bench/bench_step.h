// `tessera bench step`.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"
#include "spec/run_file/run_source.h"

namespace tessera {

struct BenchStepOptions {
  RunSource source;
  std::string device;  // overrides train.device; empty: does not
  int64_t steps = 10, warmup = 3;
  double peak_tflops = 0;  // that MFU is a share of; 0: the device's
  bool json = false;
};
int run_bench_step(BenchStepOptions options, Console& console);

}  // namespace tessera
