// Measures collectives, as one of the ranks that make them.
//
// Every case is measured in the same way: the result is checked once; then two calls to warm up;
// one timed call, whose time decides how many calls make a sample (about 2 ms, at most 20) and how
// many samples fit the budget; a sample is the time of its calls divided by their number, after a
// barrier, of the slowest rank; the case takes the median of its samples. Peers are measured in the
// same way, so that figures compare.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "bench/bench_arrays.h"
#include "bench/bench_case.h"
#include "comm/communicator.h"

namespace tessera {

struct SweepOptions {
  double budget_s = 0.2;  // of samples, per case
  // Every rank writes its input before each sample, which is then one call: as when the input has
  // just been computed. Without it, small arrays stay in the caches that the call before left.
  bool touch = false;
  bool corrupt = false;  // for tests: rank 0 spoils one element of its result before the check
};

struct BenchRow {
  size_t index = 0;    // of the case
  double seconds = 0;  // per call: median, fastest and slowest sample
  double fastest_s = 0;
  double slowest_s = 0;
  int calls_per_sample = 0;
  int samples = 0;
  int64_t wrong = 0;  // elements, over all ranks
};

// `group` is measured; `host` has the same ranks and carries times and counts (it may be `group`
// where that takes host memory). `on_row` is called on rank 0 after each case.
void measure_sweep(Communicator& group, Communicator& host, RankArrays& arrays,
                   std::span<const BenchCase> cases, const SweepOptions& options,
                   const std::function<void(const BenchRow&)>& on_row);

}  // namespace tessera
