#include "compile/pipeline/schedule/named_schedule.h"

namespace tessera {

TESSERA_SCHEDULE(90, kPipedream, "pipedream", .asynchronous = true);

// PipeDream (Narayanan et al., 2019) runs in the order of 1F1B; what differs is when weights
// change.
template <>
NamedSchedule define_schedule<PipelineKind::kPipedream>() {
  return define_schedule<PipelineKind::k1F1B>();
}

}  // namespace tessera
