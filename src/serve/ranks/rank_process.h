// The process of one rank of a server, from its start to its end.
#pragma once

#include <vector>

#include "launch/environment.h"
#include "serve/ranks/rank_worker.h"
#include "train/session/failpoint.h"

namespace tessera::serve {

// Joins its world, makes its worker, tells the front that it is ready, and computes frames until
// the front says that nothing more will come. Returns the exit code; a failure is told through the
// world, where there is one (launch/rank_failure.h). Ends the process at once where the front is
// gone. `context.frames_fd` is taken over. Points of faults: serve.load, serve.frame (before frame
// `step` is computed), serve.result (before its result is sent).
int run_rank_process(const LaunchContext& context, const std::vector<Fault>& faults,
                     const MakeRankWorker& make);

}  // namespace tessera::serve
