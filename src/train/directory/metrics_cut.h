// The metrics of a run that goes on from an earlier step.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

struct MetricsCut {
  int64_t kept = 0;     // lines
  int64_t dropped = 0;  // of later steps, and a last one that was cut off
};

// Drops the lines of `path` (a metrics.jsonl) that are about steps after `step`, and a last line
// without its end: what they tell will be told again. Lines that are not understood stay. The file
// is written anew beside it and renamed, so that it is never half of one; where nothing is to be
// dropped it stays as it is, and so does a file that is not there. Throws Error.
MetricsCut drop_metrics_after(const std::string& path, int64_t step);

}  // namespace tessera
