// One rank of a run, from its first weight to its last file.
#pragma once

#include "train/session/job.h"
#include "train/session/session.h"

namespace tessera {

// `control` is a group of all ranks of its own. Every rank calls it, with jobs of one run.
TrainSummary run_session(const TrainOptions& options, const TrainJob& job, CommWorld& world,
                         Communicator& control);

}  // namespace tessera
