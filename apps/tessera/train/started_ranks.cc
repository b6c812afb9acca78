#include "train/started_ranks.h"

#include <fmt/format.h>

#include "spec/run_file/validate.h"

namespace tessera {

void require_started_ranks(const RunSpec& spec, const LaunchContext& context) {
  require_world(spec.parallel, context.size, spec.model.heads,
                fmt::format("{} started", name_of(context.launcher)));
}

}  // namespace tessera
