// Products on tiles: the bits that the order of their sums gives, computed one by one, for every
// transposition and edge; inside their operands; and the same from any split.
#include "kernels/cpu/levels/tiles.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/rounding.h"
#include "kernels/cpu/numeric.h"
#include "kernels/testing/guarded.h"
#include "kernels/testing/tiles_here.h"

namespace tessera::kernels::cpu::levels {
namespace {

using kernels::testing::Guarded;
using kernels::testing::TileEmulator;
using kernels::testing::Tiles;
using kernels::testing::TilesHere;

#define NEEDS_TILES() \
  if (!TilesHere::possible()) GTEST_SKIP() << "this CPU has no AVX512_BF16"

// What is below 2^-126 counts as zero.
float flushed(float x) { return std::abs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x; }

float chain(float sum, float x, float y) { return flushed(std::fma(flushed(x), flushed(y), sum)); }

struct Shape {
  int64_t m, n, k;
  bool trans_a, trans_b;
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << s.m << "x" << s.n << "x" << s.k << (s.trans_a ? " a'" : "")
             << (s.trans_b ? " b'" : "");
}

// a and b of In and bf16, as a shape says they are stored.
template <typename In>
class Operands {
 public:
  Operands(const Shape& s, bool at_end, uint64_t seed)
      : a(s.m * s.k, at_end), b(s.k * s.n, at_end), c(s.m * s.n, at_end), shape_(s) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<float> normal(0, 1);
    for (int64_t i = 0; i < s.m * s.k; ++i) a.data()[i] = static_cast<In>(normal(rng));
    for (int64_t i = 0; i < s.k * s.n; ++i) b.data()[i] = static_cast<BFloat16>(normal(rng));
    for (int64_t i = 0; i < s.m * s.n; ++i) c.data()[i] = normal(rng);
  }

  [[nodiscard]] Product<In, float> product(float alpha, bool accumulate) {
    const Shape& s = shape_;
    return {{a.data(), s.trans_a ? 1 : s.k, s.trans_a ? s.m : 1},
            {nullptr, s.trans_b ? 1 : s.n, s.trans_b ? s.k : 1},
            s.m,
            s.n,
            s.k,
            alpha,
            accumulate,
            c.data(),
            s.n};
  }
  [[nodiscard]] typename Product<BFloat16, float>::Matrix b_matrix() {
    return {b.data(), shape_.trans_b ? 1 : shape_.n, shape_.trans_b ? shape_.k : 1};
  }

  [[nodiscard]] float a_at(int64_t i, int64_t k) {
    return static_cast<float>(static_cast<BFloat16>(
        static_cast<float>(a.data()[shape_.trans_a ? k * shape_.m + i : i * shape_.k + k])));
  }
  [[nodiscard]] float b_at(int64_t k, int64_t j) {
    return static_cast<float>(b.data()[shape_.trans_b ? j * shape_.k + k : k * shape_.n + j]);
  }

  // The order that tiles.h says, from `sum` on.
  [[nodiscard]] float expected(int64_t i, int64_t j, float sum) {
    for (int64_t group = 0; group < shape_.k; group += kTileDepth) {
      const int64_t end = std::min(shape_.k, group + kTileDepth);
      float even = 0, odd = 0;
      for (int64_t k = group; k < end; k += 2) {
        even = chain(even, a_at(i, k), b_at(k, j));
        if (k + 1 < end) odd = chain(odd, a_at(i, k + 1), b_at(k + 1, j));
      }
      sum = flushed(flushed(sum) + flushed(even + odd));
    }
    return sum;
  }

  Guarded<In> a;
  Guarded<BFloat16> b;
  Guarded<float> c;

 private:
  Shape shape_;
};

using Narrow = Operands<BFloat16>;

Product<BFloat16, float> whole(Narrow& x, float alpha, bool accumulate) {
  Product<BFloat16, float> p = x.product(alpha, accumulate);
  p.b = x.b_matrix();
  return p;
}

void check_bits(const Shape& s, bool at_end) {
  for (const bool accumulate : {false, true}) {
    Narrow x(s, at_end, 1);
    const std::vector<float> before(x.c.data(), x.c.data() + s.m * s.n);
    kProductsV4Amx.bf16(whole(x, 1.0F, accumulate));
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        const float start = accumulate ? before[static_cast<size_t>(i * s.n + j)] : 0.0F;
        ASSERT_EQ(x.c.data()[i * s.n + j], x.expected(i, j, start))
            << s << " at " << i << "," << j << (accumulate ? " added" : "");
      }
    }
  }
}

TEST(TileProducts, HaveTheBitsOfTheirOrderAndStayInsideTheirOperands) {
  NEEDS_TILES();
  const TilesHere tiles;
  for (const int64_t m : {1, 15, 16, 17, 31, 32, 33, 65}) {
    for (const int64_t n : {1, 7, 16, 17, 32, 33, 63, 64}) {
      for (const int64_t k : {1, 2, 31, 32, 33, 64, 67}) {
        if (m * n * k > 40'000) continue;
        for (const bool trans_a : {false, true}) {
          for (const bool trans_b : {false, true}) {
            check_bits({m, n, k, trans_a, trans_b}, (m + n + k) % 2 == 0);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// Longer than blocks of every side; the order goes through all of k.
TEST(TileProducts, BlocksDoNotChangeABit) {
  NEEDS_TILES();
  const TilesHere tiles;
  for (const Shape& s : {Shape{5, 19, 1111, false, true}, Shape{20, 3, 1024, true, false},
                         Shape{300, 4, 33, false, false}, Shape{3, 530, 40, true, true}}) {
    check_bits(s, true);
    if (HasFatalFailure()) return;
  }
}

TEST(TileProducts, RowsAndColumnsOneByOneGiveTheSameBits) {
  NEEDS_TILES();
  const TilesHere tiles;
  const Shape s{37, 50, 600, true, true};
  Narrow x(s, true, 1), again(s, true, 1);
  kProductsV4Amx.bf16(whole(x, 1.0F, true));
  const Product<BFloat16, float> all = whole(again, 1.0F, true);
  for (int64_t row = 0, rows = 1; row < s.m; row += rows, rows = rows * 2 + 1) {
    for (int64_t col = 0, cols = 5; col < s.n; col += cols, cols = 23) {
      Product<BFloat16, float> part = all;
      part.a.data += row * part.a.row;
      part.b.data += col * part.b.col;
      part.c += row * part.ldc + col;
      part.m = std::min(rows, s.m - row);
      part.n = std::min(cols, s.n - col);
      kProductsV4Amx.bf16(part);
    }
  }
  EXPECT_EQ(std::memcmp(x.c.data(), again.c.data(), static_cast<size_t>(s.m * s.n) * 4), 0);
}

// With a factor, blocks are added to what was c: no more than one rounding for each.
TEST(TileProducts, AFactorScalesTheSum) {
  NEEDS_TILES();
  const TilesHere tiles;
  for (const bool accumulate : {false, true}) {
    for (const Shape& s : {Shape{33, 40, 50, false, true}, Shape{16, 16, 1111, true, false}}) {
      Narrow x(s, true, 1), plain(s, true, 1);
      const float start = accumulate ? 3.0F : std::nanf("");
      std::fill_n(x.c.data(), s.m * s.n, start);
      kProductsV4Amx.bf16(whole(x, 0.25F, accumulate));
      kProductsV4Amx.bf16(whole(plain, 1.0F, false));
      for (int64_t i = 0; i < s.m * s.n; ++i) {
        const float want = 0.25F * plain.c.data()[i] + (accumulate ? 3.0F : 0.0F);
        ASSERT_NEAR(x.c.data()[i], want, 1e-5F * std::sqrt(static_cast<float>(s.k))) << s;
      }
    }
  }
}

// What is packed once, in parts and by sixteen columns, gives the same bits; so does a of f32,
// whose elements are rounded first.
template <typename In>
void check_packed(const Shape& s, bool at_end) {
  const int64_t size = packed_size(s.n, s.k), panel = kTileLines * round_up(s.k, kTileDepth);
  Guarded<BFloat16> storage(size, at_end);
  BFloat16* const packed = storage.data();
  for (const bool accumulate : {false, true}) {
    Operands<In> x(s, at_end, 1);
    const std::vector<float> before(x.c.data(), x.c.data() + s.m * s.n);
    const auto b = x.b_matrix();
    const int64_t first = std::min<int64_t>(s.n, 2 * kTileLines);
    kProductsV4Amx.pack(b, first, s.k, packed);
    if (s.n > first) {
      kProductsV4Amx.pack({b.data + first * b.col, b.row, b.col}, s.n - first, s.k,
                          packed + first / kTileLines * panel);
    }
    const PackedColumns columns{packed, s.k};
    const Product<In, float> p = x.product(1.0F, accumulate);
    if constexpr (std::is_same_v<In, float>) {
      kProductsV4Amx.rounded_by_packed(p, columns);
    } else {
      kProductsV4Amx.by_packed(p, columns);
    }
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        const float start = accumulate ? before[static_cast<size_t>(i * s.n + j)] : 0.0F;
        ASSERT_EQ(x.c.data()[i * s.n + j], x.expected(i, j, start)) << s << " at " << i << "," << j;
      }
    }
  }
}

TEST(TileProducts, PackedOperandsGiveTheSameBits) {
  NEEDS_TILES();
  const TilesHere tiles;
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      for (const Shape& s :
           {Shape{33, 49, 70, trans_a, trans_b}, Shape{16, 7, 1, trans_a, trans_b},
            Shape{3, 70, 531, trans_a, trans_b}, Shape{64, 48, 32, trans_a, trans_b}}) {
        check_packed<BFloat16>(s, s.k % 2 == 0);
        check_packed<float>(s, s.k % 2 == 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(TileProducts, ErrorsStayWithinTheBoundOfOneSumInOrder) {
  NEEDS_TILES();
  const TilesHere tiles;
  const Shape s{16, 16, 3000, false, true};
  Narrow x(s, true, 1);
  kProductsV4Amx.bf16(whole(x, 1.0F, false));
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double want = 0, size = 0;
      for (int64_t k = 0; k < s.k; ++k) {
        const double term = static_cast<double>(x.a_at(i, k)) * static_cast<double>(x.b_at(k, j));
        want += term;
        size += std::abs(term);
      }
      // 16 steps in a group, one to join its chains, and one for each group.
      const auto groups = static_cast<double>(ceil_div(s.k, kTileDepth));
      EXPECT_LE(std::abs(static_cast<double>(x.c.data()[i * s.n + j]) - want),
                size * 0x1p-24 * (17 + groups));
    }
  }
}

TEST(TileProducts, InfinitiesAndNotNumbersStayInTheirRowsAndColumns) {
  NEEDS_TILES();
  const TilesHere tiles;
  const Shape s{20, 20, 33, false, true};
  Narrow x(s, true, 1);
  x.a.data()[7 * s.k + 3] = static_cast<BFloat16>(std::numeric_limits<float>::infinity());
  x.b.data()[9 * s.k + 32] = static_cast<BFloat16>(std::nanf(""));
  kProductsV4Amx.bf16(whole(x, 1.0F, false));
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      const float got = x.c.data()[i * s.n + j];
      EXPECT_EQ(std::isnan(got), j == 9) << i << "," << j;
      EXPECT_EQ(std::isinf(got), i == 7 && j != 9) << i << "," << j;
    }
  }
}

// As many loads as products of tiles, the tiles configured once and given back.
TEST(TileProducts, LoadEachTileForTwoProducts) {
  NEEDS_TILES();
  if (TilesHere::native()) GTEST_SKIP() << "nobody counts what the CPU does";
  const TilesHere tiles;
  Narrow x({64, 96, 128, false, true}, true, 1);
  kProductsV4Amx.bf16(whole(x, 1.0F, true));
  const auto& counts = TileEmulator::counts();
  EXPECT_EQ(counts.multiplied, 4 * 6 * 4);
  EXPECT_EQ(counts.loaded, counts.multiplied + 4 * 6);  // and c
  EXPECT_EQ(counts.stored, 4 * 6);
  EXPECT_EQ(counts.configured, 1);
  EXPECT_EQ(counts.released, 1);
  EXPECT_FALSE(TileEmulator::tiles().configured());
}

}  // namespace
}  // namespace tessera::kernels::cpu::levels
