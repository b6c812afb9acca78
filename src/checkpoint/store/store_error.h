// What is wrong with a checkpoint, said in one way: the file, the place in it, the value, and what
// to do; with the exit code that scripts read.
#pragma once

#include <string>

#include "base/error.h"

namespace tessera {

[[noreturn]] inline void fail_corrupt(const std::string& file, const std::string& reason) {
  throw Error(fmt::format("'{}' is damaged: {}; use another checkpoint, or copy this one again",
                          file, reason),
              ExitCode::kCorrupt);
}

[[noreturn]] inline void fail_absent(const std::string& path, const std::string& reason) {
  throw Error(fmt::format("'{}' {}", path, reason), ExitCode::kAbsent);
}

}  // namespace tessera
