// Exponentials of rows: right, inside their rows, and the same bits from every level.
#include "kernels/cpu/levels/exponentials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/testing/guarded.h"
#include "tensor/cpu_level.h"

namespace tessera::kernels::cpu::levels {
namespace {

using kernels::testing::Guarded;

constexpr int64_t kLengths[] = {0, 1, 7, 16, 31, 32, 33, 64, 77, 200, 513};

// A row of random numbers at the end of its page.
class Row : public Guarded<float> {
 public:
  Row(int64_t length, uint64_t seed) : Guarded(length, true) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<float> normal(0, 3);
    for (int64_t i = 0; i < length; ++i) data()[i] = normal(rng);
  }
};

// What a level makes of rows of so many elements, one result after the other.
std::vector<float> results(const Exponentials& level, int64_t length) {
  Row x(length, 1), y(length, 2), z(length, 3), to(length, 4);
  if (length > 40) {
    x.data()[5] = -std::numeric_limits<float>::infinity();
    x.data()[38] = std::numeric_limits<float>::quiet_NaN();
  }
  std::vector<float> all;
  const auto keep = [&](Row& row) { all.insert(all.end(), row.data(), row.data() + length); };
  all.push_back(level.largest(x.data(), length));
  all.push_back(level.largest(y.data(), length));
  all.push_back(level.sum(y.data(), length, 2.5F));
  level.scaled(x.data(), length, 1.5F, 0.3F, to.data());
  keep(to);
  level.swiglu(x.data(), y.data(), to.data(), length);
  keep(to);
  level.soften_grad(y.data(), z.data(), length, 4.0F, 0.25F);
  keep(y);
  keep(z);
  level.swiglu_grad(to.data(), z.data(), y.data(), z.data(), y.data(), length);
  keep(y);
  keep(z);
  all.push_back(level.soften(z.data(), length, 1.0F));
  keep(z);
  return all;
}

TEST(LevelExponentials, GiveTheSameBitsOnEveryLevel) {
  if (highest_cpu_level() < CpuLevel::kV4) GTEST_SKIP() << "this CPU has one level";
  for (const int64_t length : kLengths) {
    const std::vector<float> narrow = results(kExponentialsV3, length);
    const std::vector<float> wide = results(kExponentialsV4, length);
    ASSERT_EQ(narrow.size(), wide.size());
    EXPECT_EQ(std::memcmp(narrow.data(), wide.data(), narrow.size() * sizeof(float)), 0) << length;
  }
}

// Beside the library's, in f64.
TEST(LevelExponentials, AreRight) {
  std::vector<const Exponentials*> levels{&kExponentialsV3};
  if (highest_cpu_level() >= CpuLevel::kV4) levels.push_back(&kExponentialsV4);
  for (const Exponentials* level : levels) {
    for (const int64_t length : kLengths) {
      Row x(length, 7), row(length, 7);
      const float max = level->largest(x.data(), length);
      double want = 0;
      for (int64_t i = 0; i < length; ++i) {
        EXPECT_LE(x.data()[i], max);
        want += std::exp(static_cast<double>(x.data()[i] - max));
      }
      const auto sum = static_cast<double>(level->soften(row.data(), length, max));
      EXPECT_NEAR(sum, want, 1e-6 * want);
      EXPECT_EQ(static_cast<double>(level->sum(x.data(), length, max)), sum);
      for (int64_t i = 0; i < length; ++i) {
        const double exact = std::exp(static_cast<double>(x.data()[i] - max));
        EXPECT_NEAR(static_cast<double>(row.data()[i]), exact, 3e-7 * exact) << i;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::kernels::cpu::levels
