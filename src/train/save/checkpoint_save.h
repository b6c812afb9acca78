// A save that all ranks of a run make together.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

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

// What all ranks say of their shards.
struct WrittenShards {
  std::vector<ShardAck> acks;
  std::string failure;  // the first, naming the rank; empty: all are there
};
// Every rank tells its acknowledgement, or why it has none.
WrittenShards gather_shards(Communicator& control, const std::string& ack,
                            const std::string& failure);

// For the rank that commits, once all have spoken. Returns why there is no new checkpoint; then
// what there was of it is removed.
std::string commit_or_abandon(FileOps& files, const SavePlan& plan, const SaveId& id, int64_t step,
                              const WrittenShards& written, const nlohmann::json& state);

// Every rank of the control group calls it between steps, with the same id and step: each writes
// its shard, rank 0 commits. No rank waits for another without a sign of life, however slow the
// disk is. Returns, on every rank, why there is no new checkpoint, naming the rank; empty: it is
// there. What a failed save has left is removed. `state` counts on rank 0.
[[nodiscard]] std::string save_checkpoint(FileOps& files, const CheckpointPlan& plan,
                                          const SaveId& id, int64_t step,
                                          const nlohmann::json& state, const Executor& executor,
                                          Communicator& control);

}  // namespace tessera
