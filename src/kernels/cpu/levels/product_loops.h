// A product in blocks that fit the caches: a block of b is packed once for all rows, blocks of a in
// turn, and tiles of c that fit the registers are summed over a block's depth. Tiles is a type of
// the source that includes this: no instance is shared between sources.
#pragma once

#include <cstdint>

#include "kernels/cpu/levels/pack.h"
#include "kernels/cpu/levels/product.h"

namespace tessera::kernels::cpu::levels {

// One tile: `depth` units (pack.h) of packed panels into c, whose rows are `row_bytes` apart.
template <typename T>
struct TileTask {
  int64_t depth;
  const T* a;
  const T* b;
  T* c;
  int64_t row_bytes;
  T alpha;
  bool accumulate;
};

template <typename T>
using TileFunction = void (*)(const TileTask<T>&);

template <typename Tiles>
class ProductLoops {
 public:
  using T = typename Tiles::Element;
  using Pack = typename Tiles::Pack;

  template <typename In>
  static void run(const Product<In, T>& p) {
    alignas(64) T packed_a[kRows * kDepth];
    alignas(64) T packed_b[kDepth * kCols];
    const int64_t most = depth_of_blocks(p.k);
    for (int64_t col = 0; col < p.n; col += kCols) {
      const int64_t cols = smaller(kCols, p.n - col);
      for (int64_t at = 0; at < p.k; at += most) {
        const int64_t depth = smaller(most, p.k - at);
        Pack::template panels<Tiles::kCols>(p.b.data + at * p.b.row + col * p.b.col, p.b.col,
                                            p.b.row, cols, depth, packed_b);
        for (int64_t row = 0; row < p.m; row += kRows) {
          const int64_t rows = smaller(kRows, p.m - row);
          Pack::template panels<Tiles::kRows>(p.a.data + row * p.a.row + at * p.a.col, p.a.row,
                                              p.a.col, rows, depth, packed_a);
          const Block block{packed_a, packed_b, rows, cols, (depth + kUnit - 1) / kUnit};
          tiles(block, p.alpha, p.accumulate || at > 0, p.c + row * p.ldc + col, p.ldc);
        }
      }
    }
  }

 private:
  // Blocks of a and b together stay in the second cache of a core, a panel of b in the first.
  static constexpr int64_t kUnit = Pack::kUnit;
  static constexpr int64_t kDepth = 1536 / static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kRows = 144;
  static constexpr int64_t kCols = 512;
  static_assert(kRows % Tiles::kRows == 0 && kCols % Tiles::kCols == 0, "whole panels");

  struct Block {
    const T* a;
    const T* b;
    int64_t rows, cols, depth;
  };

  static constexpr int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

  // Blocks along k are about equal: it depends on nothing else, so neither do the bits.
  static int64_t depth_of_blocks(int64_t k) {
    constexpr int64_t kMost = kDepth * kUnit;
    const int64_t blocks = (k + kMost - 1) / kMost;
    const int64_t even = (k + blocks - 1) / blocks;
    return (even + 7) / 8 * 8;
  }

  static void tiles(const Block& block, T alpha, bool accumulate, T* c, int64_t ldc) {
    for (int64_t j = 0; j < block.cols; j += Tiles::kCols) {
      const int64_t cols = smaller(Tiles::kCols, block.cols - j);
      for (int64_t i = 0; i < block.rows; i += Tiles::kRows) {
        const int64_t rows = smaller(Tiles::kRows, block.rows - i);
        TileTask<T> task{block.depth,
                         block.a + i * block.depth,
                         block.b + j * block.depth,
                         c + i * ldc + j,
                         ldc * static_cast<int64_t>(sizeof(T)),
                         alpha,
                         accumulate};
        const bool fits = rows % Tiles::kRowStep == 0 && cols % (Tiles::kCols / 2) == 0;
        if (fits) {
          tile_of(rows, cols)(task);
        } else {
          edge(task, rows, cols, ldc);
        }
      }
    }
  }

  // The smallest one that holds so many.
  static TileFunction<T> tile_of(int64_t rows, int64_t cols) {
    const int half = cols <= Tiles::kCols / 2 ? 1 : 0;
    return Tiles::kTiles[half][(rows + Tiles::kRowStep - 1) / Tiles::kRowStep - 1];
  }

  // A tile that reaches beyond c is computed beside it: same arithmetic, same bits.
  static void edge(TileTask<T> task, int64_t rows, int64_t cols, int64_t ldc) {
    constexpr int64_t kLine = Tiles::kCols;
    alignas(64) T beside[Tiles::kRows * kLine];
    T* const c = task.c;
    if (task.accumulate) {
      for (T& element : beside) element = T{0};
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < cols; ++j) beside[i * kLine + j] = c[i * ldc + j];
      }
    }
    task.c = beside;
    task.row_bytes = kLine * static_cast<int64_t>(sizeof(T));
    tile_of(rows, cols)(task);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) c[i * ldc + j] = beside[i * kLine + j];
    }
  }
};

}  // namespace tessera::kernels::cpu::levels
