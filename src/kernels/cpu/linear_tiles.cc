#include "kernels/cpu/linear_tiles.h"

#include <algorithm>

#include "base/rounding.h"
#include "base/workspace.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/levels/tiles.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kPairOfTiles = 2 * levels::kTileLines;  // a tile of c is two tiles wide and high

struct Lines {
  int64_t begin, end;
  [[nodiscard]] int64_t size() const { return end - begin; }
};

Lines lines_of_part(int64_t length, int64_t i, int64_t parts) {
  const int64_t count = ceil_div(length, kPairOfTiles);
  return {std::min(length, count * i / parts * kPairOfTiles),
          std::min(length, count * (i + 1) / parts * kPairOfTiles)};
}

// How many parts rows are cut into; columns into size / that. To pack a row of a takes as long as
// some 64 products of it, and so does a column of b until it has come from another core's cache.
int64_t parts_of_tile_rows(int64_t m, int64_t n, int64_t size) {
  constexpr int64_t kFetching = 64;
  int64_t best = 1, least = 0;
  for (int64_t parts = 1; parts <= size; ++parts) {
    if (size % parts != 0) continue;
    const int64_t rows = ceil_div(ceil_div(m, kPairOfTiles), parts) * kPairOfTiles;
    const int64_t cols = ceil_div(ceil_div(n, kPairOfTiles), size / parts) * kPairOfTiles;
    const int64_t cost = rows * cols + kFetching * (rows + cols);
    if (parts == 1 || cost < least) best = parts, least = cost;
  }
  return best;
}

void round_block(const float* block, int64_t rows, int64_t cols, BFloat16* c, int64_t ldc,
                 bool accumulate) {
  for (int64_t i = 0; i < rows; ++i, block += cols, c += ldc) {
    if (accumulate) {
      for (int64_t j = 0; j < cols; ++j) c[j] = BFloat16(static_cast<float>(c[j]) + block[j]);
    } else {
      for (int64_t j = 0; j < cols; ++j) c[j] = BFloat16(block[j]);
    }
  }
}

// Rows and columns of c, of which `packed` has the columns of b.
template <typename Out>
void multiply_part(const levels::TileProducts& tiles, const TiledProduct<Out>& p, Lines rows,
                   Lines cols, const BFloat16* packed, float* block) {
  const auto multiply = [&](Lines part, int64_t col, int64_t n, bool add, float* c, int64_t ldc) {
    const int64_t column = (col - cols.begin) * round_up(p.k, levels::kTileDepth);
    tiles.by_packed({{p.a.data + part.begin * p.a.row, p.a.row, p.a.col},
                     {},
                     part.size(),
                     n,
                     p.k,
                     1.0F,
                     add,
                     c,
                     ldc},
                    {packed + column, p.k});
  };
  if constexpr (std::is_same_v<Out, float>) {
    multiply(rows, cols.begin, cols.size(), p.accumulate, p.c + rows.begin * p.n + cols.begin, p.n);
  } else {
    for (int64_t col = cols.begin; col < cols.end; col += workspace::kLinearCols) {
      const int64_t n = std::min(workspace::kLinearCols, cols.end - col);
      for (int64_t row = rows.begin; row < rows.end; row += workspace::kLinearRows) {
        const Lines part{row, std::min(row + workspace::kLinearRows, rows.end)};
        multiply(part, col, n, /*add=*/false, block, n);
        round_block(block, part.size(), n, p.c + row * p.n + col, p.n, p.accumulate);
      }
    }
  }
}

}  // namespace

template <typename Out>
bool multiply_packed_together(Workers& workers, const TiledProduct<Out>& p,
                              std::span<std::byte> workspace) {
  const levels::TileProducts* const tiles = tile_products();
  if (tiles == nullptr) return false;
  constexpr int64_t kFewest = 4 * kPairOfTiles;  // columns, unless there are no more
  constexpr int64_t kAlign = workspace::kAlignBytes;
  const int64_t members = workers.size();
  const int64_t block_bytes =
      std::is_same_v<Out, float>
          ? 0
          : round_up(std::min(p.m, workspace::kLinearRows) * std::min(p.n, workspace::kLinearCols) *
                         static_cast<int64_t>(sizeof(float)),
                     kAlign);
  const int64_t left = static_cast<int64_t>(workspace.size()) - members * block_bytes;
  const int64_t grain_bytes =
      levels::packed_size(kPairOfTiles, p.k) * static_cast<int64_t>(sizeof(BFloat16));
  const int64_t most = left < 0 ? 0 : left / grain_bytes * kPairOfTiles;
  if (most < std::min(p.n, kFewest)) return false;
  const int64_t times = ceil_div(p.n, most);
  auto* const packed = reinterpret_cast<BFloat16*>(workspace.data() + members * block_bytes);
  for (int64_t time = 0; time < times; ++time) {
    const Lines all = lines_of_part(p.n, time, times);
    const auto column = [&](int64_t col) {
      return packed + (col - all.begin) * round_up(p.k, levels::kTileDepth);
    };
    workers.run([&](int member) {
      const Lines mine = lines_of_part(all.size(), member, members);
      if (mine.size() == 0) return;
      const int64_t first = all.begin + mine.begin;
      tiles->pack({p.b.data + first * p.b.col, p.b.row, p.b.col}, mine.size(), p.k, column(first));
    });
    const int64_t down = parts_of_tile_rows(p.m, all.size(), members), across = members / down;
    workers.run([&](int member) {
      const Lines rows = lines_of_part(p.m, member / across, down);
      const Lines mine = lines_of_part(all.size(), member % across, across);
      if (rows.size() == 0 || mine.size() == 0) return;
      const Lines cols{all.begin + mine.begin, all.begin + mine.end};
      auto* const block = reinterpret_cast<float*>(workspace.data() + member * block_bytes);
      multiply_part(*tiles, p, rows, cols, column(cols.begin), block);
    });
  }
  return true;
}

template bool multiply_packed_together<float>(Workers&, const TiledProduct<float>&,
                                              std::span<std::byte>);
template bool multiply_packed_together<BFloat16>(Workers&, const TiledProduct<BFloat16>&,
                                                 std::span<std::byte>);

}  // namespace tessera::kernels::cpu
