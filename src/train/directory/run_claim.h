// Which directory a run writes to, taken before anything in it is changed.
#pragma once

#include <string>
#include <vector>

#include "train/directory/run_lock.h"

namespace tessera {

struct RunDirectoryRequest {
  std::string path = {};     // logging.run_dir; empty: runs/NAME, or runs/NAME-2, ... if that holds
                             // a run and `overwrite` does not say that it may be used
  std::string name = "run";  // NAME
  std::string weights_from = {};  // model.hf: a run must not write over what it starts from
  bool resume = false;            // the run that the directory holds is to go on
  bool overwrite = false;  // a directory that holds a run may be used: that run is moved aside
};

// NAME for a run file: "mine" for a/mine.toml. A run directory's own files (resolved.toml,
// config.toml) are called after the directory that they lie in.
std::string run_name_of(const std::string& run_file);

// A directory that this process alone writes to, until the end of this object. A directory that was
// made for it and is still empty then is removed again.
class ClaimedDirectory {
 public:
  explicit ClaimedDirectory(std::string path);  // makes it
  ~ClaimedDirectory();
  ClaimedDirectory(ClaimedDirectory&& other) noexcept = default;
  ClaimedDirectory& operator=(ClaimedDirectory&&) = delete;
  ClaimedDirectory(const ClaimedDirectory&) = delete;
  ClaimedDirectory& operator=(const ClaimedDirectory&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::vector<std::string> made_;  // folders, outermost first
  std::optional<RunLock> lock_;
};

// Throws ConfigError where the directory that was asked for is in use, holds a run without
// `overwrite`, cannot be written, or has something other than plain files under a run's names. A
// name of our own choice goes on to the next number instead.
ClaimedDirectory claim_run_directory(const RunDirectoryRequest& request);

// The directory that claim_run_directory would take; throws as it would. Changes nothing.
std::string find_run_directory(const RunDirectoryRequest& request);

}  // namespace tessera
