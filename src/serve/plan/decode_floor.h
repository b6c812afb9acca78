// The least time that a step of writing takes: every rank reads its weights once, and the keys and
// values that its sequences look at, at the bandwidth of its data sheet; products take no less than
// at the peak. Links, launches and whatever else a step does are not in it, so no step is faster.
#pragma once

#include "cost/hardware/device.h"
#include "serve/plan/serve_estimate.h"

namespace tessera::serve {

struct DecodeFloor {
  int64_t sequences = 0;
  int64_t context = 0;         // tokens that each of them has in the cache
  int64_t bytes = 0;           // read by all ranks together
  double step_s = 0;           // one token of each: through all stages, one after the other
  double slowest_stage_s = 0;  // where frames fill the pipeline, one leaves it that often
};

// Experts count as many as one token takes: a step reads at least those.
DecodeFloor decode_floor(const ServeEstimate& estimate, const DeviceSpec& device, int64_t sequences,
                         int64_t context);

}  // namespace tessera::serve
