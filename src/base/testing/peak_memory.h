// How much memory this process held at most since a moment, as Linux counts it. For tests.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace tessera::testing {

// From its construction on. Where the system does not start its count anew (a restricted
// container), the most since the process began.
class PeakMemory {
 public:
  PeakMemory() { std::ofstream("/proc/self/clear_refs") << "5"; }

  [[nodiscard]] int64_t bytes() const {
    std::ifstream status("/proc/self/status");
    int64_t kib = 0;
    for (std::string word; status >> word;) {
      if (word == "VmHWM:") status >> kib;
    }
    return kib * 1024;
  }
};

}  // namespace tessera::testing
