// How every product of a level is cut. Tiles is a type of the source that includes this: no
// instance is shared between sources.
#pragma once

#include <cstdint>

namespace tessera::kernels::cpu::levels {

// What a tile fetches for later ones: two lines `apart`, and with every step along k those `pace`
// bytes further.
struct Ahead {
  const char* at;
  int64_t apart, pace;
};

// Part of an operand that is read later: `lines` of it, `line` elements apart, elements along k
// `step` apart; one of the two is 1. Tiles take turns to fetch it.
template <typename In>
struct Later {
  const In* first;
  int64_t lines, line, step;

  // The share of tile number `tile`. It fetches after every `steps` steps along k of `unit`
  // elements.
  [[nodiscard]] Ahead share(int64_t tile, int64_t steps, int64_t unit) const {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(In));
    constexpr int64_t kLine = 64;
    const char* const from = reinterpret_cast<const char*>(first);
    if (line == 1) {
      const int64_t width = steps == 1 ? 2 * kLine : kLine;
      if (tile * width >= lines * kBytes) return {from, 0, 0};
      return {from + tile * width, steps == 1 ? kLine : step * kBytes, unit * step * kBytes};
    }
    if (2 * tile >= lines) return {from, 0, 0};
    return {from + 2 * tile * line * kBytes, 2 * tile + 1 < lines ? line * kBytes : 0,
            unit * kBytes};
  }
};

template <typename Tiles>
struct Blocks {
  using T = typename Tiles::Element;

  static constexpr int64_t kUnit = Tiles::Pack::kUnit;
  static constexpr int64_t kDepth = 2048 / static_cast<int64_t>(sizeof(T));

  static constexpr int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

  // Blocks along k are about equal: it depends on nothing else, so neither do the bits.
  static int64_t depth_of_blocks(int64_t k) {
    constexpr int64_t kMost = kDepth * kUnit;
    const int64_t blocks = (k + kMost - 1) / kMost;
    const int64_t even = (k + blocks - 1) / blocks;
    return (even + 7) / 8 * 8;
  }

  // Whether there is a tile of just that size. The next larger one is that of smallest().
  static bool fits(int64_t rows, int64_t cols) {
    return rows % Tiles::kRowStep == 0 && cols % (Tiles::kCols / 2) == 0;
  }
  template <typename Function>
  static Function smallest(const Function (&tiles)[2][3], int64_t rows, int64_t cols) {
    const int half = cols <= Tiles::kCols / 2 ? 1 : 0;
    return tiles[half][(rows + Tiles::kRowStep - 1) / Tiles::kRowStep - 1];
  }

  // A tile that reaches beyond c is computed beside it: same arithmetic, same bits.
  struct Beside {
    static constexpr int64_t kLine = Tiles::kCols;
    static constexpr int64_t kRowBytes = kLine * static_cast<int64_t>(sizeof(T));

    Beside(T* c, int64_t ldc, int64_t rows, int64_t cols, bool accumulate)
        : c_(c), ldc_(ldc), rows_(rows), cols_(cols) {
      if (!accumulate) return;
      for (T& element : tile) element = T{0};
      for (int64_t i = 0; i < rows_; ++i) {
        for (int64_t j = 0; j < cols_; ++j) tile[i * kLine + j] = c_[i * ldc_ + j];
      }
    }
    void give_back() const {
      for (int64_t i = 0; i < rows_; ++i) {
        for (int64_t j = 0; j < cols_; ++j) c_[i * ldc_ + j] = tile[i * kLine + j];
      }
    }

    alignas(64) T tile[Tiles::kRows * kLine];

   private:
    T* c_;
    int64_t ldc_, rows_, cols_;
  };
};

}  // namespace tessera::kernels::cpu::levels
