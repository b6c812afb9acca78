// Measures how long the frames of serving take on the machine it runs on, as `tessera calibrate`
// measures training (train/machine/calibrate.h): every instruction of frames of few and of many
// tokens, how soon the caches lose what frames read again and again, and what the host and the
// ranks' talk add to a frame. The results are fits that src/serve/predict prices frames with.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cost/hardware/measured_machine.h"
#include "serve/frame.h"
#include "serve/plan/serve_plan.h"

namespace tessera::serve {

struct ServingCalibration {
  bool quick = false;  // fewer sizes and repetitions, f32 only
  // Ranks of a plan as processes. Not set: frames of such ranks are not measured.
  std::function<std::unique_ptr<FrameRunner>(const ServePlan& plan)> start_processes = {};
};

// Adds to `machine`, whose cores are known. Calls `progress` with what comes next.
void calibrate_serving(const ServingCalibration& options,
                       const std::function<void(const std::string& what)>& progress,
                       MeasuredMachine& machine);

}  // namespace tessera::serve
