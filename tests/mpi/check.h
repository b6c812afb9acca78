// Checks for programs that mpirun starts, where no test framework sees all ranks: the first failed
// one throws, and main ends the rank with its text.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/error.h"

namespace tessera::testing {

template <typename... Args>
void expect(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) throw Error("check failed: " + fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tessera::testing
