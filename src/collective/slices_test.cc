#include "collective/slices.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tessera {
namespace {

static_assert(all_reduce_slice(100, 4, 0, 2).end == 48);  // 7 granules of 16: 3 and 4
static_assert(all_reduce_slice(100, 4, 1, 2).end == 100);
static_assert(all_reduce_slice(0, 4, 1, 2).size() == 0);

TEST(CollectiveSlicesTest, CoverTheArrayInOrderAndBalanced) {
  for (const int64_t element_bytes : {2, 4, 8}) {
    const int64_t granule = kSliceGranuleBytes / element_bytes;
    for (const int64_t count : {0, 1, 7, 31, 32, 33, 64, 1000, 4097, 100003}) {
      for (int size = 1; size <= 9; ++size) {
        int64_t next = 0;
        int64_t least = count;
        int64_t most = 0;
        for (int rank = 0; rank < size; ++rank) {
          const SliceRange slice = all_reduce_slice(count, element_bytes, rank, size);
          EXPECT_EQ(slice.begin, next);
          EXPECT_TRUE(slice.begin % granule == 0 || slice.begin == count);
          next = slice.end;
          least = std::min(least, slice.size());
          most = std::max(most, slice.size());
        }
        EXPECT_EQ(next, count);
        EXPECT_LT(most - least, 2 * granule);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
