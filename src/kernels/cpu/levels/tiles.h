// Products of bf16 on the tiles of a CPU (AMX): registers of 16 rows of 64 bytes, of which one
// instruction multiplies two and adds the result to a third.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/levels/product.h"

namespace tessera::kernels::cpu::levels {

// A tile of an operand: so many rows of a or columns of b, and so many of each along k.
inline constexpr int64_t kTileLines = 16;
inline constexpr int64_t kTileDepth = 32;

// Elements of b[k, n] packed: its columns by sixteen, of each of these all tiles along k in order,
// of a tile a row for two k, and in a row two neighbours along k of each column. What is missing is
// zeros.
constexpr int64_t packed_size(int64_t n, int64_t k) {
  return (n + kTileLines - 1) / kTileLines * kTileLines *
         ((k + kTileDepth - 1) / kTileDepth * kTileDepth);
}

// Where a product begins in what was packed: at a multiple of sixteen columns and of kTileDepth k.
struct PackedColumns {
  const BFloat16* data;
  int64_t depth;  // the k that was packed
  [[nodiscard]] const BFloat16* at(int64_t k, int64_t col) const {
    return data + packed_size(col, depth) + packed_size(kTileLines, k);
  }
};

// The sum of an element is taken along k in groups of kTileDepth from k = 0 on, the last filled up
// with zeros: in a group one chain of fused multiply-adds over its even places and one over its odd
// ones, whose sum is added to what was. That begins as c where `accumulate` says so and alpha is 1,
// else as zero. (With another alpha, blocks of k whose length depends on k alone are summed, and
// added to c times alpha.) Numbers below 2^-126 count as zero everywhere. So nothing but k decides
// on the order, and threads, tiles, and who packed what change no bit.
//
// Like other levels these allocate nothing and read nothing outside their operands; what they pack
// lies on the stack. A call takes the tiles of its thread and leaves them empty.
struct TileProducts {
  void (*bf16)(const Product<BFloat16, float>&);

  // Packs columns of b[k, n] to packed_size(n, k) elements. Parts that start at multiples of
  // sixteen columns may be packed by different threads.
  void (*pack)(const Product<BFloat16, float>::Matrix& b, int64_t n, int64_t k, BFloat16* to);
  // Products with columns that were packed; p.b is not looked at. The second takes a of f32, which
  // is rounded to bf16 (to nearest, halves to even).
  void (*by_packed)(const Product<BFloat16, float>& p, const PackedColumns& b);
  void (*rounded_by_packed)(const Product<float, float>& p, const PackedColumns& b);
};

extern const TileProducts kProductsV4Amx;

}  // namespace tessera::kernels::cpu::levels
