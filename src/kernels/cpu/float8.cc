// Quantising, and products of codes: these are turned back into the numbers that they stand for,
// which bf16 and all wider types hold exactly, and multiplied by the products of those.
#include "kernels/float8.h"

#include <algorithm>
#include <bit>

#include "base/workspace.h"
#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/independent.h"
#include "kernels/scratch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kRowsAtOnce = 8;

// Rows and columns that a member looks at; both begin with a tile.
struct Part {
  int64_t row, rows, col, cols;
};

template <typename T>
uint32_t largest_of(const T* x, int64_t count) {
  uint32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    most = std::max(most, size_bits(static_cast<float>(widen(x[i]))));
  }
  return most;
}

// Raises `tiles`, one for each tile of columns from part.col on, to the sizes of these rows.
template <typename T>
void raise_to(const T* x, int64_t width, const Part& part, int64_t tile_cols, uint32_t* tiles) {
  for (int64_t r = part.row; r < part.row + part.rows; ++r) {
    const T* row = x + r * width + part.col;
    if (tile_cols == 1) {
      TESSERA_INDEPENDENT
      for (int64_t c = 0; c < part.cols; ++c) {
        tiles[c] = std::max(tiles[c], size_bits(static_cast<float>(widen(row[c]))));
      }
      continue;
    }
    for (int64_t c = 0, tile = 0; c < part.cols; c += tile_cols, ++tile) {
      tiles[tile] = std::max(tiles[tile], largest_of(row + c, std::min(tile_cols, part.cols - c)));
    }
  }
}

// One tile: every member has a largest of its own.
template <typename T>
void amax_of_all(Context& ctx, const T* x, int64_t count, uint32_t* result) {
  Scratch scratch("amax", ctx.workspace, workspace::amax(ctx.workers.size()));
  constexpr int64_t kApart = workspace::kAlignBytes / static_cast<int64_t>(sizeof(uint32_t));
  auto* const mine = scratch.take<uint32_t>(ctx.workers.size() * kApart);
  const int64_t members = ctx.workers.size();
  ctx.workers.run([=](int member) {
    const int64_t begin = count * member / members, end = count * (member + 1) / members;
    mine[member * kApart] = largest_of(x + begin, end - begin);
  });
  *result = 0;
  for (int64_t m = 0; m < members; ++m) *result = std::max(*result, mine[m * kApart]);
}

template <typename T>
void amax_of_tiles(Context& ctx, const T* x, int64_t rows, int64_t cols, const Scaling& scaling,
                   uint32_t* tiles) {
  const int64_t down = scaling.row_tiles(rows), across = scaling.col_tiles(cols);
  const int64_t tile_rows = scaling.rows == 0 ? rows : scaling.rows;
  const int64_t tile_cols = scaling.cols == 0 ? cols : scaling.cols;
  std::fill(tiles, tiles + down * across, 0U);
  if (down > 1) {
    return ctx.workers.parallel_for(down, 1, [=](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t row = t * tile_rows;
        raise_to(x, cols, {row, std::min(tile_rows, rows - row), 0, cols}, tile_cols,
                 tiles + t * across);
      }
    });
  }
  ctx.workers.parallel_for(across, 16, [=](int64_t begin, int64_t end) {
    const int64_t col = begin * tile_cols;
    raise_to(x, cols, {0, rows, col, std::min(end * tile_cols, cols) - col}, tile_cols,
             tiles + begin);
  });
}

template <Float8 kFormat, typename T>
void encode_row(const T* x, int64_t count, float inverse, uint8_t* codes) {
  TESSERA_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) codes[i] = encode_float8<kFormat>(widen(x[i]) * inverse);
}

template <Float8 kFormat, typename T>
void quantise_rows(Context& ctx, const T* x, const float* amax, int64_t rows, int64_t cols,
                   const Scaling& scaling, uint8_t* codes) {
  const int64_t across = scaling.col_tiles(cols);
  const int64_t tile_cols = scaling.cols == 0 ? cols : scaling.cols;
  ctx.workers.parallel_for(rows, kRowsAtOnce, [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* of_row = amax + (scaling.rows == 0 ? 0 : r / scaling.rows) * across;
      for (int64_t c = 0, tile = 0; c < cols; c += tile_cols, ++tile) {
        encode_row<kFormat>(x + r * cols + c, std::min(tile_cols, cols - c),
                            inverse_scale_of(kFormat, of_row[tile]), codes + r * cols + c);
      }
    }
  });
}

template <typename T>
Tensor numbers_of(Context& ctx, const Float8Matrix& x, DType type, T* numbers) {
  const int64_t rows = x.codes.dim(0), cols = x.codes.dim(1);
  const int64_t across = x.scaling.col_tiles(cols);
  const int64_t tile_cols = x.scaling.cols == 0 ? cols : x.scaling.cols;
  const float* const amax = x.amax.as<float>();
  const auto* const codes = x.codes.as<uint8_t>();
  const float* const values = values_of(x.scaling.format).data();
  const Scaling scaling = x.scaling;
  ctx.workers.parallel_for(rows, kRowsAtOnce, [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* of_row = amax + (scaling.rows == 0 ? 0 : r / scaling.rows) * across;
      for (int64_t c = 0, tile = 0; c < cols; c += tile_cols, ++tile) {
        const float scale = scale_of(scaling.format, of_row[tile]);
        const int64_t last = std::min(c + tile_cols, cols);
        for (int64_t i = r * cols + c; i < r * cols + last; ++i) {
          numbers[i] = narrow<T>(Acc<T>{values[codes[i]]} * Acc<T>{scale});
        }
      }
    }
  });
  return Tensor(numbers, type, {rows, cols});
}

// Calls product(context, a, b) with the numbers of both, and what of the workspace is left.
template <typename F>
void with_numbers(Context& ctx, const char* op, const Float8Matrix& a, const Float8Matrix& b,
                  DType type, const F& product) {
  dispatch(op, type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t needed = workspace::fp8_numbers(type, a.codes.numel()) +
                           workspace::fp8_numbers(type, b.codes.numel());
    Scratch scratch(op, ctx.workspace, needed);
    const Tensor left = numbers_of(ctx, a, type, scratch.take<T>(a.codes.numel()));
    const Tensor right = numbers_of(ctx, b, type, scratch.take<T>(b.codes.numel()));
    Context rest{ctx.workers, ctx.workspace.subspan(static_cast<size_t>(needed)), ctx.params};
    product(rest, left, right);
  });
}

}  // namespace

void amax(Context& ctx, const Tensor& x, Tensor& amax, const Scaling& scaling) {
  const int64_t rows = x.dim(0), cols = x.dim(1);
  // Sizes are compared as bits, and the bits are those of the result.
  auto* const tiles = reinterpret_cast<uint32_t*>(amax.data);
  dispatch("amax", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (amax.numel() == 1) return amax_of_all(ctx, x.as<T>(), rows * cols, tiles);
    amax_of_tiles(ctx, x.as<T>(), rows, cols, scaling, tiles);
  });
}

void quantise(Context& ctx, const Tensor& x, const Tensor& amax, Tensor& codes,
              const Scaling& scaling) {
  dispatch("quantise", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = [&]<Float8 kFormat>() {
      quantise_rows<kFormat>(ctx, x.as<T>(), amax.as<float>(), x.dim(0), x.dim(1), scaling,
                             codes.as<uint8_t>());
    };
    scaling.format == Float8::kE4M3 ? run.template operator()<Float8::kE4M3>()
                                    : run.template operator()<Float8::kE5M2>();
  });
}

void fp8_linear(Context& ctx, const Float8Matrix& x, const Float8Matrix& w, Tensor& y) {
  with_numbers(ctx, "fp8_linear", x, w, y.dtype,
               [&](Context& rest, const Tensor& left, const Tensor& right) {
                 cpu::linear(rest, left, right, y);
               });
}

void fp8_linear_dx(Context& ctx, const Float8Matrix& dy, const Float8Matrix& w, Tensor& dx,
                   bool accumulate) {
  with_numbers(ctx, "fp8_linear_dx", dy, w, dx.dtype,
               [&](Context& rest, const Tensor& left, const Tensor& right) {
                 cpu::linear_dx(rest, left, right, dx, accumulate);
               });
}

void fp8_linear_dw(Context& ctx, const Float8Matrix& dy, const Float8Matrix& x, Tensor& dw,
                   DType type, bool accumulate) {
  with_numbers(ctx, "fp8_linear_dw", dy, x, type,
               [&](Context& rest, const Tensor& left, const Tensor& right) {
                 cpu::linear_dw(rest, left, right, dw, accumulate);
               });
}

}  // namespace tessera::kernels::cpu
