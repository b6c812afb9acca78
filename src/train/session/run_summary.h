// What a whole run did, measured on all ranks: summary.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "train/report/straggler.h"
#include "train/session/evaluation.h"
#include "train/session/job.h"

namespace tessera {

// What a rank knows of its run. Rank 0's is the one that is written down, but for the last two.
struct RunTotals {
  int64_t steps = 0;        // done
  int64_t before = 0;       // of those, by the checkpoint that the run went on from
  double seconds = 0;       // of all, evaluations included
  double eval_seconds = 0;  // of those
  double warm_seconds = 0;  // of the first step
  double final_loss = 0;
  std::vector<SetLoss> evaluation;  // the last one; empty: there was none
  double max_seconds = 0;           // that ended the run; 0: its steps did
  int64_t eval_passes = 0;          // of the Program, in all evaluations
  int64_t gpu_free_before = 0;      // before the run took any; 0: it needs no GPU
  int64_t gpu_free_after = 0;
  int64_t saves = 0;          // checkpoints
  int64_t snapshots = 0;      // in memory
  int64_t staging_bytes = 0;  // host memory that this rank has taken for both
  double save_seconds = 0;    // of all of them; part of `seconds`
  ComputeClock compute;
};

// All ranks call it; rank 0 has use for it.
nlohmann::ordered_json run_summary(const RunTotals& totals, const TrainJob& job,
                                   const Executor& executor, const CommWorld& world,
                                   Communicator& control);

}  // namespace tessera
