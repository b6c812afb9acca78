// How far a file of requests is, as one line.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

struct BatchProgress {
  int64_t done = 0;
  int64_t total = 0;  // 0: not known
  int64_t errors = 0;
  int64_t before = 0;  // of `done`: answered by an earlier run
  int64_t tokens = 0;  // of answers, in this run
  double seconds = 0;  // of this run
};

// "[######------] 120/240 50% | ETA 2m | 1.2k tok/s | 3 errors"; the bar is as wide as `columns`
// lets it be (0: there is none).
std::string batch_text(const BatchProgress& progress, int columns);

}  // namespace tessera
