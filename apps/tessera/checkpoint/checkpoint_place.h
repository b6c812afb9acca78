// Which checkpoint a path on the command line means.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/store/file_ops.h"

namespace tessera {

struct CheckpointPlace {
  std::unique_ptr<FileOps> files;  // of the folder that holds checkpoints
  std::string folder;              // one of them; empty: the path names all
};

// A run directory stands for its folder `checkpoints`. Throws Error with ExitCode::kAbsent where
// there is nothing.
CheckpointPlace find_checkpoints(const std::string& path);
// The same, where one is needed: the newest that is committed and good.
CheckpointPlace find_checkpoint(const std::string& path, bool allow_unchecked = false);

}  // namespace tessera
