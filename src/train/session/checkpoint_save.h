// A save that all ranks of a run make together.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "checkpoint/store/committer.h"
#include "comm/communicator.h"
#include "train/state/rank_state.h"

namespace tessera {

// The same on every rank; made once while the mesh stays.
struct CheckpointPlan {
  explicit CheckpointPlan(const StepGraph& step)
      : layout(lay_out_state(step)), save(plan_save(layout)) {}
  StateLayout layout;
  SavePlan save;
};

// Every rank of the control group calls it between steps, with the same id and step: each writes
// its shard, rank 0 commits. No rank waits for another without a sign of life, however slow the
// disk is. Returns, on every rank, why there is no new checkpoint, naming the rank; empty: it is
// there. What a failed save has left is removed. `state` counts on rank 0.
[[nodiscard]] std::string save_checkpoint(FileOps& files, const CheckpointPlan& plan,
                                          const SaveId& id, int64_t step,
                                          const nlohmann::json& state, const Executor& executor,
                                          Communicator& control);

}  // namespace tessera
