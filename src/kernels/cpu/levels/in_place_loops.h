// Products that read operands where they lie: packing an element costs as much as some sixteen
// products, which pays where it then takes part in many. Tiles is a type of the source that
// includes this: no instance is shared between sources.
#pragma once

#include <cstdint>

#include "kernels/cpu/levels/blocks.h"
#include "kernels/cpu/levels/pack.h"
#include "kernels/cpu/levels/product.h"

namespace tessera::kernels::cpu::levels {

// One tile over `depth` steps along k. Neighbours of a down its rows lie `row_a` bytes apart, along
// k `step_a`; rows of b `step_b`, rows of c `row_c`.
template <typename T>
struct InPlaceTask {
  int64_t depth;
  const char* a;
  int64_t row_a, step_a;
  const char* b;
  int64_t step_b;
  T* c;
  int64_t row_c;
  T alpha;
  int64_t accumulate;
  Ahead ahead;
};

template <typename T>
using InPlaceFunction = void (*)(const InPlaceTask<T>&);

template <typename Tiles>
class InPlaceLoops {
 public:
  using T = typename Tiles::Element;
  using Cut = Blocks<Tiles>;

  // Whether operands as small as that are not worth packing.
  static bool suits(const Product<T, T>& p) { return p.m <= kFew || p.n <= kFew; }

  static void run(const Product<T, T>& p) {
    alignas(64) T panel_b[Cut::kDepth * Tiles::kCols];
    const int64_t most = Cut::depth_of_blocks(p.k);
    for (int64_t at = 0; at < p.k; at += most) {
      const int64_t depth = Cut::smaller(most, p.k - at);
      const Rows rows(p, 0, p.m, at, depth);
      for (int64_t col = 0; col < p.n; col += Tiles::kCols) {
        const int64_t cols = Cut::smaller(Tiles::kCols, p.n - col);
        const T* const b = p.b.data + at * p.b.row + col * p.b.col;
        if (p.b.col == 1 && cols % (Tiles::kCols / 2) == 0) {
          rows.times(b, p.b.row, col, cols);
        } else {
          Tiles::Pack::template panels<Tiles::kCols>(b, p.b.col, p.b.row, cols, depth, panel_b);
          rows.times(panel_b, Tiles::kCols, col, cols);
        }
      }
    }
  }

  // Rows of a at one block of its depth. Those that do not fill a tile are packed: a larger tile
  // computes them, which would read beyond a.
  class Rows {
   public:
    Rows(const Product<T, T>& p, int64_t row, int64_t rows, int64_t at, int64_t depth)
        : p_(p), row_(row), rows_(rows), at_(at), depth_(depth) {
      if (rows % Tiles::kRowStep == 0) return;
      const int64_t last = rows / Tiles::kRows * Tiles::kRows;
      Tiles::Pack::template panels<Tiles::kRows>(element(last), p.a.row, p.a.col, rows - last,
                                                 depth, last_);
    }

    // Columns [col, col + cols) of c from a panel of b, whose rows are `step` elements apart.
    void times(const T* b, int64_t step, int64_t col, int64_t cols, int64_t tile_number = 0,
               const Later<T>& later = {nullptr, 0, 0, 0}) const {
      for (int64_t i = 0; i < rows_; i += Tiles::kRows, ++tile_number) {
        const int64_t rows = Cut::smaller(Tiles::kRows, rows_ - i);
        const bool packed = rows % Tiles::kRowStep != 0;
        T* const c = p_.c + (row_ + i) * p_.ldc + col;
        InPlaceTask<T> task{depth_,
                            reinterpret_cast<const char*>(packed ? last_ : element(i)),
                            (packed ? 1 : p_.a.row) * kBytes,
                            (packed ? Tiles::kRows : p_.a.col) * kBytes,
                            reinterpret_cast<const char*>(b),
                            step * kBytes,
                            c,
                            p_.ldc * kBytes,
                            p_.alpha,
                            p_.accumulate || at_ > 0 ? 1 : 0,
                            later.first == nullptr ? Ahead{reinterpret_cast<const char*>(b), 0, 0}
                                                   : later.share(tile_number, 1, 1)};
        const auto tile = Cut::smallest(Tiles::kInPlace, rows, cols);
        if (Cut::fits(rows, cols)) {
          tile(task);
        } else {
          typename Cut::Beside beside(c, p_.ldc, rows, cols, task.accumulate != 0);
          task.c = beside.tile;
          task.row_c = Cut::Beside::kRowBytes;
          tile(task);
          beside.give_back();
        }
      }
    }

   private:
    [[nodiscard]] const T* element(int64_t i) const {
      return p_.a.data + (row_ + i) * p_.a.row + at_ * p_.a.col;
    }

    const Product<T, T>& p_;
    int64_t row_, rows_, at_, depth_;
    alignas(64) T last_[Tiles::kRows * Cut::kDepth];
  };

 private:
  static constexpr int64_t kFew = 96;
  static constexpr int64_t kBytes = static_cast<int64_t>(sizeof(T));
};

}  // namespace tessera::kernels::cpu::levels
