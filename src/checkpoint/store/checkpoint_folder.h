// A committed checkpoint, opened: what COMMIT, manifest.json and state.json say, and checks of the
// rest. Whatever is wrong throws Error with the file, the place, the value and the fix, and with
// ExitCode::kCorrupt, kAbsent, kIo or kVersion.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/store/block_sums.h"
#include "checkpoint/store/commit_file.h"
#include "checkpoint/store/file_ops.h"
#include "checkpoint/store/manifest.h"

namespace tessera {

struct CheckpointFolder {
  std::string folder;
  CommitFile commit;
  Manifest manifest;
  nlohmann::json state;
  // Shards whose sums are missing count as good. Sums that are there are compared all the same.
  bool allow_unchecked = false;

  [[nodiscard]] int64_t step() const { return commit.head.step; }
};

// Reads and checks the three files; no shard is opened. kAbsent without COMMIT, and where a file
// that COMMIT speaks of is missing.
CheckpointFolder open_checkpoint(const FileOps& files, const std::string& folder,
                                 bool allow_unchecked = false);

// The sums of a shard, as COMMIT says they are; kAbsent where they are missing, unless that is
// allowed.
FileSums load_sums(const FileOps& files, const CheckpointFolder& checkpoint, int64_t file);

// The shard has the size and the header that its sums and the manifest say. Returns the sums.
FileSums check_shard(const FileOps& files, const CheckpointFolder& checkpoint, int64_t file);

// Names of shards whose sums are missing.
std::vector<std::string> shards_without_sums(const FileOps& files,
                                             const CheckpointFolder& checkpoint);

// Nothing lies in the folder that does not belong to this checkpoint.
void check_entries(const FileOps& files, const CheckpointFolder& checkpoint);

// All of that: what "quick" verification is.
void quick_check(const FileOps& files, const CheckpointFolder& checkpoint);

}  // namespace tessera
