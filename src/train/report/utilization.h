// Model FLOPs utilization of a step: the arithmetic that the model needs, over what the devices of
// the run could do in that time.
#pragma once

#include <string>

#include "comm/world.h"
#include "spec/run_spec.h"

namespace tessera {

// The peak of one device, where it is known: a device of the catalogue, a calibrated machine.
struct PeakRate {
  double flops_per_s = 0;  // 0: not known
  bool of_thread = false;  // of one thread of the CPU; else of one GPU
};

class Utilization {
 public:
  Utilization(const RunSpec& spec, const CommWorld& world, const PeakRate& peak);

  // 0 where the peak is not known.
  [[nodiscard]] double of_step(double seconds) const;

 private:
  double flops_ = 0;  // of a step, over those of all devices in a second
};

}  // namespace tessera
