// How fast this machine's memory is at what a collective does to it, with nothing in the way: no
// other rank, no waiting, private memory on huge pages.
#pragma once

#include <cstdint>

#include "bench/bench_case.h"

namespace tessera {

struct MemoryProbe {
  int sources = 1;
  int targets = 1;               // 0: memory is only read
  bool in_place = false;         // the first targets are the sources
  int threads = 1;               // each on its own memory and, where there are enough, its own core
  int64_t bytes_per_thread = 0;  // of all streams together
};

// Bytes per second that all threads together read and write (each source once, each target once):
// the median of several passes.
double memory_rate(const MemoryProbe& probe);

// The probe for `work` with as many threads as there are ranks or cores, whichever are fewer, on
// memory that no cache holds.
MemoryProbe probe_for(const MemoryWork& work, int ranks);

// The largest cache of this machine; 32 MiB where the system does not say.
int64_t largest_cache_bytes();

// Whether the memory is what bounds `work`, because the caches hold only a small part of it.
bool is_memory_bound(const MemoryWork& work);

// A rate drifts while a sweep runs, so it is taken before and after.
struct MemoryLimit {
  double before = 0;  // bytes per second
  double after = 0;
  [[nodiscard]] double rate() const { return (before + after) / 2; }
};

}  // namespace tessera
