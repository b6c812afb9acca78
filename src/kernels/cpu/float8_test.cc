// Quantising by its definition, products of codes to the bit, and how far both are from exact
// products: a bound for each recipe, which a scale of other elements, a scale of another step and
// another rounding break.
#include "kernels/float8.h"

#include <gtest/gtest.h>

#include "base/number_format.h"
#include "kernels/testing/test_support.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

constexpr int64_t kBlock = 16;

struct Recipe {
  const char* name;
  Scaling x, w, dy;         // of y = x w' and dx = dy w, along their last dimension
  Scaling w_down;           // of w where its first dimension is summed
  Scaling x_down, dy_down;  // of dw = dy' x
};
const Recipe kRecipes[] = {
    {"tensor", {}, {}, {Float8::kE5M2}, {}, {}, {Float8::kE5M2}},
    {"row", {.rows = 1}, {.rows = 1}, {.rows = 1}, {.cols = 1}, {.cols = 1}, {.cols = 1}},
    {"block",
     {.rows = 1, .cols = kBlock},
     {.rows = kBlock, .cols = kBlock},
     {.rows = 1, .cols = kBlock},
     {.rows = kBlock, .cols = kBlock},
     {.rows = kBlock, .cols = 1},
     {.rows = kBlock, .cols = 1}},
};

struct Sizes {
  int64_t tokens, out, in;
};
const Sizes kSizes[] = {{1, 1, 1}, {7, 5, 3}, {33, 17, 65}, {70, 129, 31}};

// A matrix and its codes, in arrays of their own.
struct Quantised {
  Array amax, codes;
  Scaling scaling;
  [[nodiscard]] Float8Matrix matrix() const { return {codes.tensor(), amax.tensor(), scaling}; }
  [[nodiscard]] double number(int64_t i) const {
    const int64_t cols = codes.tensor().dim(1), r = i / cols, c = i % cols;
    const int64_t tile = (scaling.rows == 0 ? 0 : r / scaling.rows) * scaling.col_tiles(cols) +
                         (scaling.cols == 0 ? 0 : c / scaling.cols);
    const NumberFormat& format = number_formats()[scaling.format == Float8::kE4M3 ? 3 : 4];
    return decode(format, static_cast<uint32_t>(codes.get(i))) *
           scale_of(scaling.format, static_cast<float>(amax.get(tile)));
  }
};

Array amax_of(Rig& rig, const Array& x, const Scaling& scaling) {
  const Tensor& t = x.tensor();
  Array result(DType::kF32, {scaling.row_tiles(t.dim(0)), scaling.col_tiles(t.dim(1))});
  amax(rig, x, result, scaling);
  return result;
}

Quantised quantised(Rig& rig, const Array& x, const Scaling& scaling, const Array& amax) {
  Quantised result{amax, Array(DType::kU8, {x.tensor().dim(0), x.tensor().dim(1)}), scaling};
  quantise(rig, x, amax, result.codes, scaling);
  return result;
}
Quantised quantised(Rig& rig, const Array& x, const Scaling& scaling) {
  return quantised(rig, x, scaling, amax_of(rig, x, scaling));
}

// Rows and columns of very different sizes, as training has.
Array uneven(DType type, int64_t rows, int64_t cols, Rng& rng) {
  Array x(type, {rows, cols});
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t r = i / cols, c = i % cols;
    x.set(i, std::ldexp(normal(rng), static_cast<int>(r * 7 % 5 + c * 5 % 4)));
  }
  return x;
}

int64_t room(DType type, const Sizes& s, int threads) {
  return std::max({workspace::fp8_linear(type, s.tokens, s.out, s.in, threads),
                   workspace::fp8_linear_dx(type, s.tokens, s.out, s.in, threads),
                   workspace::fp8_linear_dw(type, s.tokens, s.out, s.in, threads),
                   workspace::amax(threads)});
}

// Half of the last place, relative for what is normal, of the scale for what is smaller.
double rounding_error(const Scaling& scaling, double value, double scale) {
  const Float8Shape shape = shape_of(scaling.format);
  return std::max(std::ldexp(std::abs(value), -shape.mantissa_bits - 1),
                  std::ldexp(scale, -shape.bias - shape.mantissa_bits));
}

TEST(Quantise, FollowsItsDefinition) {
  Rng rng(1);
  for (const DType type : kFloatTypes) {
    for (const Sizes& s : kSizes) {
      const Array x = uneven(type, s.tokens, s.in, rng);
      for (const Recipe& recipe : kRecipes) {
        for (const Scaling& scaling : {recipe.x, recipe.dy, recipe.w, recipe.x_down}) {
          for (const int threads : {1, 3}) {
            SCOPED_TRACE(fmt::format("{} {} {}x{}", name_of(type), recipe.name, s.tokens, s.in));
            Rig rig(threads, workspace::amax(threads));
            const Quantised q = quantised(rig, x, scaling);
            std::vector<double> largest(static_cast<size_t>(q.amax.size()), 0);
            const auto tile_of = [&](int64_t i) {
              const int64_t down = scaling.rows == 0 ? 0 : i / s.in / scaling.rows;
              const int64_t across = scaling.cols == 0 ? 0 : i % s.in / scaling.cols;
              return static_cast<size_t>(down * scaling.col_tiles(s.in) + across);
            };
            for (int64_t i = 0; i < x.size(); ++i) {
              largest[tile_of(i)] = std::max(largest[tile_of(i)], std::abs(x.get(i)));
            }
            for (int64_t t = 0; t < q.amax.size(); ++t) {
              ASSERT_EQ(q.amax.get(t), static_cast<float>(largest[static_cast<size_t>(t)]));
            }
            for (int64_t i = 0; i < x.size(); ++i) {
              const auto amax = static_cast<float>(largest[tile_of(i)]);
              const double scale = scale_of(scaling.format, amax);
              ASSERT_LE(std::abs(q.number(i) - x.get(i)), rounding_error(scaling, x.get(i), scale));
            }
          }
        }
      }
    }
  }
}

TEST(Quantise, ZeroStaysZeroAndWhatIsNotFiniteMakesItsTileNaN) {
  Rig rig(1, workspace::amax(1));
  Array x = Array(DType::kF32, {3, 4}).fill(0);
  x.set(5, -HUGE_VAL);
  x.set(6, 2);
  x.set(8, std::nan(""));
  const Quantised q = quantised(rig, x, {.rows = 1});
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(q.number(i), 0);
  for (int64_t i = 4; i < 12; ++i) EXPECT_TRUE(std::isnan(q.number(i))) << i;
  const Quantised all = quantised(rig, x, {Float8::kE5M2});
  EXPECT_TRUE(std::isnan(all.number(0)));
}

// The numbers that codes stand for, as arrays of the type that is computed in.
Array numbers(const Quantised& q, DType type) {
  Array x(type, {q.codes.tensor().dim(0), q.codes.tensor().dim(1)});
  for (int64_t i = 0; i < x.size(); ++i) {
    x.set(i, q.number(i));
    EXPECT_EQ(x.get(i), q.number(i)) << "not exact in " << name_of(type);
  }
  return x;
}

TEST(Fp8Products, AreTheProductsOfTheirNumbersToTheBit) {
  Rng rng(2);
  for (const DType type : {DType::kBF16, DType::kF32, DType::kF64}) {
    for (const Sizes& s : kSizes) {
      for (const Recipe& recipe : kRecipes) {
        const int threads = 2;
        Rig rig(threads, room(type, s, threads));
        const Array x = uneven(type, s.tokens, s.in, rng), w = uneven(type, s.out, s.in, rng);
        const Array dy = uneven(type, s.tokens, s.out, rng);
        const Quantised qx = quantised(rig, x, recipe.x), qw = quantised(rig, w, recipe.w);
        const Quantised qdy = quantised(rig, dy, recipe.dy);
        const Quantised qw_down = quantised(rig, w, recipe.w_down);
        const Quantised qx_down = quantised(rig, x, recipe.x_down);
        const Quantised qdy_down = quantised(rig, dy, recipe.dy_down);
        Array y(type, {s.tokens, s.out}), y_want = y, dx(type, {s.tokens, s.in}), dx_want = dx;
        Array dw = Array(accumulate_type(type), {s.out, s.in}).fill(3), dw_want = dw;
        fp8_linear(rig, qx.matrix(), qw.matrix(), y);
        linear(rig, numbers(qx, type), numbers(qw, type), y_want);
        EXPECT_TRUE(y.same_bits(y_want));
        fp8_linear_dx(rig, qdy.matrix(), qw_down.matrix(), dx, false);
        linear_dx(rig, numbers(qdy, type), numbers(qw_down, type), dx_want, false);
        EXPECT_TRUE(dx.same_bits(dx_want));
        fp8_linear_dw(rig, qdy_down.matrix(), qx_down.matrix(), dw, type, true);
        linear_dw(rig, numbers(qdy_down, type), numbers(qx_down, type), dw_want, true);
        EXPECT_TRUE(dw.same_bits(dw_want));
      }
    }
  }
}

// How much of its bound the worst element of y = x w' takes. The bound knows x and w alone: what
// their codes are is to be judged.
double part_of_bound(Rig& rig, const Array& x, const Array& w, const Quantised& qx,
                     const Quantised& qw) {
  const int64_t tokens = x.tensor().dim(0), in = x.tensor().dim(1), out = w.tensor().dim(0);
  Array y(x.type(), {tokens, out});
  fp8_linear(rig, qx.matrix(), qw.matrix(), y);
  const auto error = [&](const Array& values, const Scaling& scaling) {
    const Array right = amax_of(rig, values, scaling);
    const int64_t cols = values.tensor().dim(1);
    std::vector<double> errors;
    for (int64_t i = 0; i < values.size(); ++i) {
      const int64_t tile =
          (scaling.rows == 0 ? 0 : i / cols / scaling.rows) * scaling.col_tiles(cols) +
          (scaling.cols == 0 ? 0 : i % cols / scaling.cols);
      const double scale = scale_of(scaling.format, static_cast<float>(right.get(tile)));
      errors.push_back(rounding_error(scaling, values.get(i), scale));
    }
    return errors;
  };
  const std::vector<double> of_x = error(x, qx.scaling), of_w = error(w, qw.scaling);
  double most = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t n = 0; n < out; ++n) {
      double exact = 0, bound = 1e-6;
      for (int64_t k = 0; k < in; ++k) {
        const int64_t i = t * in + k, j = n * in + k;
        const double ex = of_x[static_cast<size_t>(i)], ew = of_w[static_cast<size_t>(j)];
        exact += x.get(i) * w.get(j);
        bound += ex * std::abs(w.get(j)) + ew * std::abs(x.get(i)) + ex * ew;
      }
      const double part = std::abs(y.get(t * out + n) - exact) / bound;
      most = std::isnan(part) ? HUGE_VAL : std::max(most, part);
    }
  }
  return most;
}

TEST(Fp8Products, AreWithinTheBoundOfTheirRecipe) {
  Rng rng(3);
  for (const Recipe& recipe : kRecipes) {
    for (const int64_t in : {1, 3, 40}) {
      const Sizes s{24, 20, in};
      Rig rig(2, room(DType::kF64, s, 2));
      const Array x = uneven(DType::kF64, s.tokens, s.in, rng);
      const Array w = uneven(DType::kF64, s.out, s.in, rng);
      for (const Scaling& of_x : {recipe.x, recipe.dy}) {
        const double part =
            part_of_bound(rig, x, w, quantised(rig, x, of_x), quantised(rig, w, recipe.w));
        EXPECT_LE(part, 1) << recipe.name;
        // With one product for each element, the bound is nearly reached: it is not generous.
        EXPECT_GT(part, in == 1 ? 0.5 : 0) << recipe.name;
      }
    }
  }
}

// Each fault alone, in the codes of x, breaks the bound of every recipe.
TEST(Fp8Products, TheBoundFindsScalesOfOthersAndStaleOnes) {
  Rng rng(4);
  const Sizes s{32, 8, 8};
  Rig rig(1, room(DType::kF64, s, 1));
  for (const Recipe& recipe : kRecipes) {
    SCOPED_TRACE(recipe.name);
    const Array x = uneven(DType::kF64, s.tokens, s.in, rng);
    const Array w = uneven(DType::kF64, s.out, s.in, rng);
    const Quantised qw = quantised(rig, w, recipe.w);
    const Array amax = amax_of(rig, x, recipe.x);
    ASSERT_LE(part_of_bound(rig, x, w, quantised(rig, x, recipe.x, amax), qw), 1);

    // The scale of the tile behind; one scale for all has none, and is that of another matrix.
    Array of_others = amax;
    for (int64_t i = 0; i < amax.size(); ++i) {
      of_others.set(i, amax.size() == 1 ? amax.get(0) / 64 : amax.get((i + 1) % amax.size()));
    }
    EXPECT_GT(part_of_bound(rig, x, w, quantised(rig, x, recipe.x, of_others), qw), 1);

    Array stale = amax;  // x was a quarter as large
    for (int64_t i = 0; i < amax.size(); ++i) stale.set(i, amax.get(i) / 4);
    EXPECT_GT(part_of_bound(rig, x, w, quantised(rig, x, recipe.x, stale), qw), 1);
  }
}

// Towards zero: one product for each element, so that errors cannot even out.
Quantised cut(Quantised q, const Array& x) {
  for (int64_t i = 0; i < x.size(); ++i) {
    if (std::abs(q.number(i)) > std::abs(x.get(i))) q.codes.set(i, q.codes.get(i) - 1);
  }
  return q;
}

TEST(Fp8Products, TheBoundFindsAnotherRounding) {
  Rng rng(5);
  const Sizes s{32, 24, 1};
  Rig rig(1, room(DType::kF64, s, 1));
  for (const Recipe& recipe : kRecipes) {
    const Array x = uneven(DType::kF64, s.tokens, s.in, rng);
    const Array w = uneven(DType::kF64, s.out, s.in, rng);
    const Quantised qx = quantised(rig, x, recipe.x), qw = quantised(rig, w, recipe.w);
    EXPECT_LE(part_of_bound(rig, x, w, qx, qw), 1) << recipe.name;
    EXPECT_GT(part_of_bound(rig, x, w, cut(qx, x), cut(qw, w)), 1) << recipe.name;
  }
}

}  // namespace
}  // namespace tessera::kernels
