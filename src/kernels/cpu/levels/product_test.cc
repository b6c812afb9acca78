// Products of every level: right, inside their operands, and the same bits from all of them.
#include "kernels/cpu/levels/product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/numeric.h"
#include "kernels/testing/guarded.h"
#include "tensor/cpu_level.h"

namespace tessera::kernels::cpu::levels {
namespace {

using kernels::testing::Guarded;

struct Level {
  const char* name;
  Products products;
};

// Those that this CPU can run.
std::vector<Level> levels_here() {
  std::vector<Level> levels;
  if (highest_cpu_level() >= CpuLevel::kV3) levels.push_back({"v3", kProductsV3});
  if (highest_cpu_level() >= CpuLevel::kV4) levels.push_back({"v4", kProductsV4});
  return levels;
}

// Its products of bf16 are those of pairs, with bits of their own.
std::vector<Level> levels_of_pairs_here() {
  if (highest_cpu_level() < CpuLevel::kV4Bf16) return {};
  return {{"v4-bf16", {nullptr, nullptr, kProductsV4Bf16.bf16, nullptr}}};
}

void run(const Products& level, const Product<float, float>& p) { level.f32(p); }
void run(const Products& level, const Product<double, double>& p) { level.f64(p); }
void run(const Products& level, const Product<BFloat16, float>& p) { level.bf16(p); }
void run(const Products& level, const Product<Float16, float>& p) { level.f16(p); }

struct Shape {
  int64_t m, n, k;
  bool trans_a, trans_b;
};

template <typename In>
typename Product<In, Acc<In>>::Matrix matrix(const In* data, bool across, int64_t rows,
                                             int64_t cols) {
  return {data, across ? 1 : cols, across ? rows : 1};
}

// a, b and c at the end (or begin) of their pages.
template <typename In>
class Operands {
 public:
  using T = Acc<In>;

  Operands(const Shape& s, bool at_end)
      : a(s.m * s.k, at_end), b(s.k * s.n, at_end), c(s.m * s.n, at_end), shape_(s) {}

  [[nodiscard]] Product<In, T> product(T alpha, bool accumulate) {
    const Shape& s = shape_;
    return {matrix<In>(a.data(), s.trans_a, s.m, s.k),
            matrix<In>(b.data(), s.trans_b, s.k, s.n),
            s.m,
            s.n,
            s.k,
            alpha,
            accumulate,
            c.data(),
            s.n};
  }

  Guarded<In> a, b;
  Guarded<T> c;

 private:
  Shape shape_;
};

const std::vector<Shape> kOddShapes = [] {
  std::vector<Shape> shapes;
  for (const int64_t m : {1, 5, 6, 12, 13, 25, 150}) {
    for (const int64_t n : {1, 7, 16, 17, 33, 530}) {
      for (const int64_t k : {1, 8, 13}) {
        for (const bool trans_a : {false, true}) {
          for (const bool trans_b : {false, true}) {
            if (m * n * k > 30'000) continue;
            shapes.push_back({m, n, k, trans_a, trans_b});
          }
        }
      }
    }
  }
  // Too large to be read in place.
  for (const int64_t m : {98, 156}) {
    for (const bool trans_a : {false, true}) {
      for (const bool trans_b : {false, true}) shapes.push_back({m, 113, 9, trans_a, trans_b});
    }
  }
  return shapes;
}();

// Small whole numbers: exact in any order.
template <typename In>
void check_exact(const Level& level, const Shape& s, bool at_end) {
  using T = Acc<In>;
  Operands<In> x(s, at_end);
  const auto small = [](int64_t i) { return static_cast<float>(i % 7 - 3); };
  for (int64_t i = 0; i < s.m * s.k; ++i) x.a.data()[i] = static_cast<In>(small(i));
  for (int64_t i = 0; i < s.k * s.n; ++i) x.b.data()[i] = static_cast<In>(small(i * 5));
  for (const bool accumulate : {false, true}) {
    for (int64_t i = 0; i < s.m * s.n; ++i)
      x.c.data()[i] = accumulate ? T{3} : static_cast<T>(std::nan(""));
    run(level.products, x.product(T{2}, accumulate));
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double want = 0;
        for (int64_t p = 0; p < s.k; ++p) {
          want += static_cast<double>(small(s.trans_a ? p * s.m + i : i * s.k + p)) *
                  static_cast<double>(small(5 * (s.trans_b ? j * s.k + p : p * s.n + j)));
        }
        ASSERT_EQ(static_cast<double>(x.c.data()[i * s.n + j]), 2 * want + (accumulate ? 3 : 0))
            << level.name << " " << s.m << "x" << s.n << "x" << s.k << " at " << i << "," << j;
      }
    }
  }
}

TEST(LevelProducts, AreRightAndStayInsideTheirOperands) {
  for (const bool at_end : {true, false}) {
    for (const Shape& shape : kOddShapes) {
      for (const Level& level : levels_of_pairs_here()) check_exact<BFloat16>(level, shape, at_end);
      for (const Level& level : levels_here()) {
        check_exact<float>(level, shape, at_end);
        check_exact<double>(level, shape, at_end);
        check_exact<BFloat16>(level, shape, at_end);
        check_exact<Float16>(level, shape, at_end);
        if (HasFatalFailure()) return;
      }
    }
  }
}

template <typename In>
void randomise(Guarded<In>& values, int64_t count, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal(0, 1);
  for (int64_t i = 0; i < count; ++i) values.data()[i] = static_cast<In>(normal(rng));
}

// The bits of one element depend on its row of a, its column of b, and k.
template <typename In>
void expect_same_bits(const std::vector<Level>& levels, const Shape& s, Acc<In> alpha) {
  using T = Acc<In>;
  std::vector<std::vector<T>> results;
  for (const Level& level : levels) {
    Operands<In> x(s, true);
    randomise(x.a, s.m * s.k, 1);
    randomise(x.b, s.k * s.n, 2);
    randomise(x.c, s.m * s.n, 3);
    run(level.products, x.product(alpha, true));
    results.emplace_back(x.c.data(), x.c.data() + s.m * s.n);
    // The same by a row at a time, and in two parts of columns.
    Operands<In> again(s, true);
    randomise(again.a, s.m * s.k, 1);
    randomise(again.b, s.k * s.n, 2);
    randomise(again.c, s.m * s.n, 3);
    const Product<In, T> whole = again.product(alpha, true);
    for (int64_t row = 0; row < s.m; ++row) {
      for (int64_t col = 0, next = s.n / 3; col < s.n; col = next, next = s.n) {
        if (next == col) continue;
        Product<In, T> part = whole;
        part.a.data += row * part.a.row;
        part.b.data += col * part.b.col;
        part.c += row * part.ldc + col;
        part.m = 1;
        part.n = next - col;
        run(level.products, part);
      }
    }
    results.emplace_back(again.c.data(), again.c.data() + s.m * s.n);
  }
  for (const std::vector<T>& result : results) {
    EXPECT_EQ(std::memcmp(result.data(), results.front().data(), result.size() * sizeof(T)), 0)
        << s.m << "x" << s.n << "x" << s.k;
  }
}

TEST(LevelProducts, EveryLevelAndEveryTileGiveTheSameBits) {
  for (const Shape& s : {Shape{29, 83, 1000, false, true}, Shape{29, 83, 519, true, false},
                         Shape{64, 48, 96, false, false}, Shape{109, 131, 600, false, true},
                         Shape{109, 131, 519, true, false}}) {
    expect_same_bits<float>(levels_here(), s, 0.3F);
    expect_same_bits<double>(levels_here(), s, 0.3);
    expect_same_bits<BFloat16>(levels_here(), s, 0.3F);
    expect_same_bits<Float16>(levels_here(), s, 0.3F);
    expect_same_bits<BFloat16>(levels_of_pairs_here(), s, 0.3F);
  }
}

// In blocks along k of equal length, at most 512 long; alpha times the sum of each is added to c.
float sum_in_order(const Product<float, float>& p, int64_t row, int64_t col) {
  const int64_t blocks = (p.k + 511) / 512;
  const int64_t length = ((p.k + blocks - 1) / blocks + 7) / 8 * 8;
  float c = 0;
  for (int64_t at = 0; at < p.k; at += length) {
    float sum = 0;
    for (int64_t i = at; i < std::min(p.k, at + length); ++i) {
      sum = std::fma(p.a.data[row * p.a.row + i * p.a.col], p.b.data[i * p.b.row + col * p.b.col],
                     sum);
    }
    c = at == 0 ? p.alpha * sum : std::fma(p.alpha, sum, c);
  }
  return c;
}

TEST(LevelProducts, SumOneChainPerBlockInOrder) {
  for (const Shape& s : {Shape{17, 35, 1000, false, true}, Shape{100, 98, 1030, false, false},
                         Shape{100, 98, 513, true, true}}) {
    for (const Level& level : levels_here()) {
      Operands<float> x(s, true);
      randomise(x.a, s.m * s.k, 6);
      randomise(x.b, s.k * s.n, 7);
      const Product<float, float> p = x.product(0.3F, false);
      level.products.f32(p);
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < s.n; ++j) {
          ASSERT_EQ(x.c.data()[i * s.n + j], sum_in_order(p, i, j)) << level.name << i << "," << j;
        }
      }
    }
  }
}

TEST(LevelProducts, ErrorsStayWithinTheBoundOfOneChainPerBlock) {
  constexpr int64_t kDepth = 5000;
  for (const Level& level : levels_here()) {
    Operands<float> x({12, 32, kDepth, false, true}, true);
    randomise(x.a, 12 * kDepth, 4);
    randomise(x.b, 32 * kDepth, 5);
    run(level.products, x.product(1.0F, false));
    for (int64_t i = 0; i < 12; ++i) {
      for (int64_t j = 0; j < 32; ++j) {
        double want = 0, size = 0;
        for (int64_t p = 0; p < kDepth; ++p) {
          const double term = static_cast<double>(x.a.data()[i * kDepth + p]) *
                              static_cast<double>(x.b.data()[j * kDepth + p]);
          want += term;
          size += std::abs(term);
        }
        // Random errors of 512 steps in a block, and of as many blocks as there are.
        EXPECT_LE(std::abs(static_cast<double>(x.c.data()[i * 32 + j]) - want), size * 0x1p-24 * 20)
            << level.name;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::kernels::cpu::levels
