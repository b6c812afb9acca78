// A product in blocks that fit the caches: a block of b is packed once for all rows, blocks of a in
// turn, and tiles of c that fit the registers are summed over a block's depth. Operands come from
// memory only while tiles are computed, which fetch what is packed or read next: Ahead. Tiles is a
// type of the source that includes this: no instance is shared between sources.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/levels/blocks.h"
#include "kernels/cpu/levels/in_place_loops.h"
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
  Ahead ahead;
};

template <typename T>
using TileFunction = void (*)(const TileTask<T>&);

template <typename Tiles>
class ProductLoops {
 public:
  using T = typename Tiles::Element;
  using Pack = typename Tiles::Pack;
  using Cut = Blocks<Tiles>;

  template <typename In>
  static void run(const Product<In, T>& p) {
    // Rows of a that lie along k are read in place: each is one stream, which the cache foresees.
    constexpr bool kMayStay = std::is_same_v<In, T>;
    if constexpr (kMayStay) {
      if (InPlaceLoops<Tiles>::suits(p)) return InPlaceLoops<Tiles>::run(p);
    }
    alignas(64) T packed_b[Cut::kDepth * kCols];
    const int64_t most = Cut::depth_of_blocks(p.k);
    const bool packs_rows = !kMayStay || p.a.col != 1;
    const int64_t width = columns_of_blocks(p.n, most, packs_rows);
    for (int64_t col = 0; col < p.n; col += width) {
      const int64_t cols = Cut::smaller(width, p.n - col);
      for (int64_t at = 0; at < p.k; at += most) {
        const int64_t depth = Cut::smaller(most, p.k - at);
        const Panels panels{packed_b, col, cols, at, depth, at + most < p.k ? at + most : 0};
        if constexpr (kMayStay) {
          if (!packs_rows) {
            in_place(p, panels);
            continue;
          }
        }
        packed(p, panels);
      }
    }
  }

 private:
  // A block of a stays in the second cache of a core, most of one of b too.
  static constexpr int64_t kUnit = Cut::kUnit;
  static constexpr int64_t kRows = 144;
  static constexpr int64_t kCols = 512;
  static_assert(kRows % Tiles::kRows == 0 && kCols % Tiles::kCols == 0, "whole panels");

  // A block of b.
  struct Panels {
    T* b;
    int64_t col, cols, at, depth;
    int64_t next_at;  // where the next block begins along k
    [[nodiscard]] int64_t units() const { return (depth + kUnit - 1) / kUnit; }
  };

  // Columns of a block of b. One that is less deep is wider; where rows are packed they are so for
  // every block, so it is as wide as fits. All are about equal.
  static int64_t columns_of_blocks(int64_t n, int64_t depth, bool packs_rows) {
    const int64_t wide = Cut::kDepth * kUnit * (packs_rows ? kCols : kCols * 3 / 4) / depth;
    const int64_t widest = Cut::smaller(3 * kCols, wide / Tiles::kCols * Tiles::kCols);
    const int64_t blocks = (n + widest - 1) / widest;
    const int64_t panels = (n + blocks * Tiles::kCols - 1) / (blocks * Tiles::kCols);
    return panels * Tiles::kCols;
  }

  // The block of a behind the one at `row`: that of the next block of b after the last one.
  template <typename In>
  static Later<In> rows_behind(const Product<In, T>& p, const Panels& x, int64_t row) {
    const bool last = row + kRows >= p.m;
    const int64_t next = last ? 0 : row + kRows, at = last ? x.next_at : x.at;
    return {p.a.data + next * p.a.row + at * p.a.col, Cut::smaller(kRows, p.m - next), p.a.row,
            p.a.col};
  }
  // A panel of b, before it is packed.
  template <typename In>
  static Later<In> panel_at(const Product<In, T>& p, const Panels& x, int64_t j) {
    return {p.b.data + x.at * p.b.row + (x.col + j) * p.b.col,
            Cut::smaller(Tiles::kCols, x.cols - j), p.b.col, p.b.row};
  }

  // Calls tiles(panel, its column in x, its columns, number of its first tile, what tiles fetch)
  // for the panels of x at the block of rows from `row` on. The first block of rows packs each when
  // it comes to it, and fetches the next one meanwhile; later ones fetch the rows behind them.
  template <typename In, typename F>
  static void for_each_panel(const Product<In, T>& p, const Panels& x, int64_t row,
                             const F& tiles) {
    const Later<In> rows = rows_behind(p, x, row);
    const int64_t per_panel = (Cut::smaller(kRows, p.m - row) + Tiles::kRows - 1) / Tiles::kRows;
    for (int64_t j = 0, tile = 0; j < x.cols; j += Tiles::kCols) {
      const int64_t cols = Cut::smaller(Tiles::kCols, x.cols - j);
      T* const panel = x.b + j * x.units();
      if (row > 0) {
        tiles(panel, j, cols, tile, rows);
        tile += per_panel;
        continue;
      }
      Pack::template panels<Tiles::kCols>(panel_at(p, x, j).first, p.b.col, p.b.row, cols, x.depth,
                                          panel);
      const bool last = j + Tiles::kCols >= x.cols;
      tiles(panel, j, cols, 0, last ? rows : panel_at(p, x, j + Tiles::kCols));
    }
  }

  static void in_place(const Product<T, T>& p, const Panels& x) {
    for (int64_t row = 0; row < p.m; row += kRows) {
      const typename InPlaceLoops<Tiles>::Rows rows(p, row, Cut::smaller(kRows, p.m - row), x.at,
                                                    x.depth);
      for_each_panel(
          p, x, row,
          [&](const T* panel, int64_t j, int64_t cols, int64_t tile, const Later<T>& later) {
            rows.times(panel, Tiles::kCols, x.col + j, cols, tile, later);
          });
    }
  }

  template <typename In>
  static void packed(const Product<In, T>& p, const Panels& x) {
    alignas(64) T packed_a[kRows * Cut::kDepth];
    for (int64_t row = 0; row < p.m; row += kRows) {
      const int64_t rows = Cut::smaller(kRows, p.m - row);
      Pack::template panels<Tiles::kRows>(p.a.data + row * p.a.row + x.at * p.a.col, p.a.row,
                                          p.a.col, rows, x.depth, packed_a);
      for_each_panel(
          p, x, row,
          [&](const T* panel, int64_t j, int64_t cols, int64_t tile, const Later<In>& later) {
            for (int64_t i = 0; i < rows; i += Tiles::kRows, ++tile) {
              TileTask<T> task{x.units(),
                               packed_a + i * x.units(),
                               panel,
                               p.c + (row + i) * p.ldc + x.col + j,
                               p.ldc * static_cast<int64_t>(sizeof(T)),
                               p.alpha,
                               p.accumulate || x.at > 0,
                               later.share(tile, 2, kUnit)};
              one_tile(task, Cut::smaller(Tiles::kRows, rows - i), cols, p.ldc);
            }
          });
    }
  }

  static void one_tile(TileTask<T>& task, int64_t rows, int64_t cols, int64_t ldc) {
    const auto tile = Cut::smallest(Tiles::kTiles, rows, cols);
    if (Cut::fits(rows, cols)) return tile(task);
    typename Cut::Beside beside(task.c, ldc, rows, cols, task.accumulate);
    task.c = beside.tile;
    task.row_bytes = Cut::Beside::kRowBytes;
    tile(task);
    beside.give_back();
  }
};

}  // namespace tessera::kernels::cpu::levels
