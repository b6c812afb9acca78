// The files of a run directory, read without following a link: a page may ask for them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/unique_fd.h"

namespace tessera {

struct FileState {
  uint64_t device = 0, inode = 0;
  int64_t size = 0;
  double changed = 0;  // Unix time
  friend bool operator==(const FileState&, const FileState&) = default;
  // Whatever was written to it meanwhile.
  [[nodiscard]] bool is_same_file(const FileState& other) const {
    return device == other.device && inode == other.inode;
  }
};

// A plain file right in `folder`. Not valid: there is none of that name, or it is a link, a folder,
// a pipe.
class RunFile {
 public:
  RunFile(const std::string& folder, const std::string& name);

  [[nodiscard]] bool valid() const { return file_.valid(); }
  [[nodiscard]] const FileState& state() const { return state_; }
  // At most `most` bytes from `offset` on; fewer at the end.
  [[nodiscard]] std::string read(int64_t offset, int64_t most) const;

 private:
  UniqueFd file_;
  FileState state_;
};

// The whole of it. Nothing: there is none. Throws Error where it has more than `most` bytes.
std::optional<std::string> read_run_file(const std::string& folder, const std::string& name,
                                         int64_t most);

// Whether a run was started there: it has a plan, metrics or a resolved run file.
bool holds_run(const std::string& folder);

}  // namespace tessera
