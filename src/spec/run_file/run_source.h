// A run file with the changes made around it: what a command line, or a request, says a run is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/file_reader.h"
#include "spec/run_file/setting.h"
#include "spec/run_spec.h"

namespace tessera {

struct RunSource {
  std::string file;
  std::vector<std::string> overrides;  // "section.key=value"
  std::string mesh;                    // "dp=2,tp=2"; empty: as in the file
  int64_t ranks = 0;                   // the mesh must have this many; 0: any
  bool may_lack_file = false;          // the overrides then say everything
  bool may_be_model = false;           // --model and --cluster do instead of a file
  std::vector<Setting> under = {};     // what a recipe says, and everybody else may change
  std::vector<Setting> flags = {};     // what flags of their own say, before the overrides

  [[nodiscard]] std::string text(const FileReader& read) const;  // of the file
  // A recipe's, then flags, then overrides. ConfigError where the latter two or the mesh
  // contradict each other.
  [[nodiscard]] std::vector<Setting> settings() const;
  // Reads, overrides, resolves and checks; throws ConfigError.
  [[nodiscard]] RunSpec load(const FileReader& read) const;
};

}  // namespace tessera
