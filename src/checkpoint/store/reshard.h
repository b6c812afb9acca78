// A checkpoint, cut anew: what another mesh would have saved of the same state, bit for bit.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "checkpoint/store/box_reader.h"
#include "checkpoint/store/compare.h"
#include "checkpoint/store/save_plan.h"

namespace tessera {

// What is read at a time. With the buffers of the reader and the writer: less than 64 MiB.
inline constexpr int64_t kReshardBytes = int64_t{32} << 20;

// The same sharding in boxes of at most `most_bytes` (or one element), so that no box has to be in
// memory whole. Replicas are cut alike.
std::vector<std::vector<HeldBox>> in_small_boxes(const std::vector<TensorHead>& tensors,
                                                 const std::vector<std::vector<HeldBox>>& held,
                                                 int64_t most_bytes);

// Writes all tensors of `from` into `to` as `held` says (by rank), under the step that they have,
// and commits them with `state`. Every block is checked before it is used. Throws Error:
// ExitCode::kUsage where `to` has that step already, or the tensors are not those of `from`, all
// of them; else as read_boxes() and write_shard() do. What a failure has left is removed
// as far as the disk lets it; a checkpoint that is whole already, but for LATEST, stays.
ReadFigures reshard(const StoredCheckpoint& from, FileOps& to,
                    const std::vector<TensorHead>& tensors,
                    const std::vector<std::vector<HeldBox>>& held, const SaveId& id,
                    const nlohmann::json& state);

}  // namespace tessera
