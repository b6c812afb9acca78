// What a run writes, looked at before it starts: whether its folder can be made and written, and
// whether the disk has room for it.
#pragma once

#include <cstdint>
#include <string>

#include "spec/run_spec.h"

namespace tessera {

struct FolderState {
  std::string nearest;    // the folder, or the nearest one above it that exists
  bool is_folder = true;  // and not a file
  bool writable = true;
  int64_t free_bytes = 0;
};
FolderState look_at_folder(const std::string& path);

// Throws ConfigError, naming the setting (a key or a flag) that chose the folder.
void require_writable(const std::string& path, const FolderState& state,
                      const std::string& setting);

struct RunOutput {
  int64_t weights_bytes = 0;  // of the file, exactly
  int64_t log_bytes = 0;      // of the other files, about
  int64_t save_bytes = 0;     // of the checkpoints in the run directory at one time, about
};
// `spec` must have gone through resolve().
RunOutput output_of(const RunSpec& spec);

// What is wrong where the disk is too full; empty: it is not.
std::string disk_shortage(const std::string& path, const FolderState& state,
                          const RunOutput& output);

}  // namespace tessera
