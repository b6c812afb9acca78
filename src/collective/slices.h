// Who reduces what in an all_reduce: shared by the communicators (which do it) and the planner
// (which prices it). Pure functions.
#pragma once

#include <cstdint>

namespace tessera {

constexpr int64_t kSliceGranuleBytes = 64;  // no two ranks store into one cache line

struct SliceRange {
  int64_t begin = 0;
  int64_t end = 0;
  [[nodiscard]] constexpr int64_t size() const { return end - begin; }
};

// The elements that `rank` of `size` reduces and stores into every peer. The array is cut into
// granules of 64 bytes, of which rank r takes [granules * r / size, granules * (r + 1) / size): the
// slices follow each other in order of rank, differ by at most one granule, and only the last one
// that is not empty may end inside a granule.
constexpr SliceRange all_reduce_slice(int64_t count, int64_t element_bytes, int rank, int size) {
  const int64_t granule = kSliceGranuleBytes / element_bytes;
  const int64_t granules = (count + granule - 1) / granule;
  const int64_t begin = granules * rank / size * granule;
  const int64_t end = granules * (rank + 1) / size * granule;
  return {begin < count ? begin : count, end < count ? end : count};
}

}  // namespace tessera
