#include "kernels/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/testing/guarded.h"

namespace tessera::kernels::cpu {
namespace {

using kernels::testing::Guarded;

template <typename T>
void check_product(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, bool at_end) {
  Guarded<T> a(m * k, at_end), b(k * n, at_end), c(m * n, at_end);
  for (int64_t i = 0; i < m * n; ++i) c.data()[i] = std::numeric_limits<T>::quiet_NaN();
  gemm<T>(trans_a, trans_b, m, n, k, T{2}, a.data(), trans_a ? m : k, b.data(), trans_b ? k : n,
          T{0}, c.data(), n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T want = 0;  // small integers: exact in any order
      for (int64_t p = 0; p < k; ++p) {
        want +=
            a.data()[trans_a ? p * m + i : i * k + p] * b.data()[trans_b ? j * k + p : p * n + j];
      }
      ASSERT_EQ(c.data()[i * n + j], 2 * want)
          << m << "x" << n << "x" << k << " at " << i << "," << j;
    }
  }
}

TEST(Gemm, IsRightAndStaysInsideItsOperands) {
  for (const bool at_end : {false, true}) {
    for (const int64_t m : {1, 2, 3, 5, 7, 17, 37, 64}) {
      for (const int64_t n : {1, 2, 3, 6, 11, 16, 31, 67}) {
        for (const int64_t k : {1, 3, 16, 65, 131}) {
          for (const auto& [trans_a, trans_b] :
               {std::pair(false, true), std::pair(false, false), std::pair(true, false)}) {
            check_product<float>(trans_a, trans_b, m, n, k, at_end);
            check_product<double>(trans_a, trans_b, m, n, k, at_end);
          }
        }
      }
    }
  }
}

TEST(Gemm, BetaAddsToWhatIsThere) {
  const float a = 3, b = 5;
  float c = 7;
  gemm<float>(false, false, 1, 1, 1, 1.0F, &a, 1, &b, 1, 1.0F, &c, 1);
  EXPECT_EQ(c, 22.0F);
  gemm<float>(false, false, 0, 1, 1, 1.0F, &a, 1, &b, 1, 1.0F, &c, 1);
  EXPECT_EQ(c, 22.0F);
}

}  // namespace
}  // namespace tessera::kernels::cpu
