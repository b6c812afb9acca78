// What one rank writes of a save: its file of chunks and the sums of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "checkpoint/box/runs.h"
#include "checkpoint/store/file_ops.h"
#include "checkpoint/store/save_plan.h"

namespace tessera {

// A box in memory, in elements of the tensor's type; valid until the next is asked for.
struct ChunkMemory {
  const std::byte* memory = nullptr;
  Placed place;  // of a box that holds the one that is written
};
// Asked for one box after the other, in the order of the file.
using ChunkSource = std::function<ChunkMemory(const HeldBox& held)>;

// That a shard is on the disk, whole and synced.
struct ShardAck {
  SaveId id;
  int64_t rank = 0;
  int64_t bytes = 0;      // of the file
  std::string sums_hash;  // SHA-256 of the file of sums
};
std::string text_of(const ShardAck& ack);  // for the way to who commits
ShardAck parse_ack(std::string_view text);

// What a shard is best collected in before it is written, for `data_bytes` of chunks.
int64_t write_buffer_bytes(int64_t data_bytes);

// Writes the shard of `rank` into the folder that begin_save() made. Room is asked for first, so
// that a full disk is noticed before anything is written; bytes are summed while they are copied
// into `buffer`, which is all the memory that this needs. Empty: it takes write_buffer_bytes() of
// its own. Throws IoError.
ShardAck write_shard(FileOps& files, const SavePlan& plan, const SaveId& id, int64_t step,
                     int64_t rank, const ChunkSource& source, std::span<std::byte> buffer = {});

}  // namespace tessera
