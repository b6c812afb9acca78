// Copies for collectives. Stores of a large copy go past the caches: without that every line of the
// target is read from memory before it is overwritten, and pushes out something useful.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

// Results of all ranks of a host that are together at least this large do not stay in its caches
// anyway.
constexpr int64_t kStreamedBytes = int64_t{16} << 20;

// `total_bytes` is the size of all results of the call of which this is a part.
void copy_bytes(void* to, const void* from, int64_t size_bytes, int64_t total_bytes);

}  // namespace tessera
