// Looks at a whole checkpoint and says everything that is wrong with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/store/file_ops.h"

namespace tessera {

struct CheckProblem {
  ExitCode code = ExitCode::kCorrupt;
  std::string text;  // with the file, the place and both values
};

struct CheckReport {
  std::vector<CheckProblem> problems;  // in the order of the files; empty: all is well
  int64_t step = -1;                   // -1: COMMIT does not say
  int64_t files = 0, tensors = 0;
  int64_t bytes = 0;                        // of the shards
  int64_t checked_blocks = 0;               // deep: whose sums were compared
  std::vector<std::string> unchecked = {};  // shards whose sums are missing, where that is allowed

  // kOk, or that of the worst problem: a newer format, then damage, the disk, what is missing.
  [[nodiscard]] ExitCode code() const;
};

// Quick: COMMIT, hashes, sizes, headers, coverage. Deep: also every block, `threads` shards at a
// time. Throws only where the folder is not there.
CheckReport verify_checkpoint(const FileOps& files, const std::string& folder, bool deep,
                              int threads = 4, bool allow_unchecked = false);

}  // namespace tessera
