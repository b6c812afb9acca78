#include "compile/pipeline/schedule/named_schedule.h"

namespace tessera {

TESSERA_SCHEDULE(100, kPipedream2bw, "pipedream-2bw", .asynchronous = true);

// PipeDream-2BW (Narayanan et al., 2021) runs in the order of 1F1B; what differs is when weights
// change.
template <>
NamedSchedule define_schedule<PipelineKind::kPipedream2bw>() {
  return define_schedule<PipelineKind::k1F1B>();
}

}  // namespace tessera
