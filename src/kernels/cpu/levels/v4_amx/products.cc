// Products of bf16 on tiles: c in four of them, two of a and two of b in the others, so that each
// tile that is loaded is used twice: as many loads as products. A product of tiles takes 16 cycles
// and a load 8 where its 1 KiB lies in the first cache, so the loads hide behind the products.
//
// Blocks: 32 columns of b over a block's depth are 32 KiB and stay in the first cache while the
// rows pass; the block of a (256 KiB) and that of b (512 KiB) stay in the second.
#include "kernels/cpu/levels/tiles.h"
#include "kernels/cpu/levels/v4_amx/pack.h"

namespace tessera::kernels::cpu::levels {
namespace {

// All eight tiles are whole: what is missing at the edges are packed zeros.
struct alignas(64) Configuration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr Configuration kConfiguration;

// The tiles of this thread for as long as this lives.
struct TilesInUse {
  TilesInUse() { asm volatile("ldtilecfg %0" : : "m"(kConfiguration)); }
  ~TilesInUse() { asm volatile("tilerelease" : : : "memory"); }
  TilesInUse(const TilesInUse&) = delete;
  TilesInUse& operator=(const TilesInUse&) = delete;
};

// `groups` pairs of tiles into c. The second tiles of a and b lie *_panel elements behind the
// first.
struct TileTask {
  const BFloat16* a;
  const BFloat16* b;
  int64_t a_panel, b_panel;
  int64_t groups;
  float* c;
  int64_t row_bytes;
  bool accumulate;
};

// c in tiles 0 (upper left), 1 (upper right), 2 and 3 (lower); a in 4 and 5, b in 6 and 7.
#define AMX_RIGHT(x) x
#define AMX_LOWER(x) x
#define AMX_BOTH(x) AMX_RIGHT(AMX_LOWER(x))

#define AMX_TILES(name)                                                                           \
  void name(const TileTask& task) {                                                               \
    const BFloat16* a = task.a;                                                                   \
    const BFloat16* b = task.b;                                                                   \
    const BFloat16* a2 = a + task.a_panel;                                                        \
    const BFloat16* b2 = b + task.b_panel;                                                        \
    int64_t left = task.groups;                                                                   \
    float* const lower = task.c + 16 * task.row_bytes / static_cast<int64_t>(sizeof(float));      \
    asm volatile(                                                                               \
        "test %[add],%[add]\n"                                                                  \
        "jne 1f\n"                                                                              \
        "tilezero %%tmm0\n" AMX_RIGHT("tilezero %%tmm1\n") AMX_LOWER("tilezero %%tmm2\n")       \
        AMX_BOTH("tilezero %%tmm3\n")                                                           \
        "jmp 2f\n"                                                                              \
        "1:\n"                                                                                  \
        "tileloadd (%[c],%[ld],1),%%tmm0\n"                                                     \
        AMX_RIGHT("tileloadd 64(%[c],%[ld],1),%%tmm1\n")                                        \
        AMX_LOWER("tileloadd (%[lower],%[ld],1),%%tmm2\n")                                      \
        AMX_BOTH("tileloadd 64(%[lower],%[ld],1),%%tmm3\n")                                     \
        ".p2align 5\n"                                                                          \
        "2:\n"                                                                                  \
        "tileloadd (%[a],%[line],1),%%tmm4\n"                                                   \
        "tileloadd (%[b],%[line],1),%%tmm6\n"                                                   \
        AMX_LOWER("tileloadd (%[a2],%[line],1),%%tmm5\n")                                       \
        "tdpbf16ps %%tmm6,%%tmm4,%%tmm0\n"                                                      \
        AMX_RIGHT("tileloadd (%[b2],%[line],1),%%tmm7\n")                                       \
        AMX_LOWER("tdpbf16ps %%tmm6,%%tmm5,%%tmm2\n")                                           \
        AMX_RIGHT("tdpbf16ps %%tmm7,%%tmm4,%%tmm1\n")                                           \
        AMX_BOTH("tdpbf16ps %%tmm7,%%tmm5,%%tmm3\n")                                            \
        "add $1024,%[a]\n"                                                                      \
        "add $1024,%[b]\n" AMX_LOWER("add $1024,%[a2]\n") AMX_RIGHT("add $1024,%[b2]\n")        \
        "dec %[left]\n"                                                                         \
        "jne 2b\n"                                                                              \
        "tilestored %%tmm0,(%[c],%[ld],1)\n"                                                    \
        AMX_RIGHT("tilestored %%tmm1,64(%[c],%[ld],1)\n")                                       \
        AMX_LOWER("tilestored %%tmm2,(%[lower],%[ld],1)\n")                                     \
        AMX_BOTH("tilestored %%tmm3,64(%[lower],%[ld],1)\n")                                    \
        : [a] "+r"(a), [b] "+r"(b), [a2] "+r"(a2), [b2] "+r"(b2), [left] "+r"(left)             \
        : [c] "r"(task.c), [lower] "r"(lower), [ld] "r"(task.row_bytes), [line] "r"(int64_t{64}), \
          [add] "r"(static_cast<int64_t>(task.accumulate))                                      \
        : "memory", "cc"); \
  }

AMX_TILES(two_by_two)
#undef AMX_RIGHT
#define AMX_RIGHT(x)
AMX_TILES(two_by_one)
#undef AMX_LOWER
#define AMX_LOWER(x)
AMX_TILES(one_by_one)
#undef AMX_RIGHT
#define AMX_RIGHT(x) x
AMX_TILES(one_by_two)

// By whether the tile has more than sixteen columns, and rows.
using TileFunction = void (*)(const TileTask&);
constexpr TileFunction kTiles[2][2] = {{one_by_one, two_by_one}, {one_by_two, two_by_two}};

constexpr int64_t kPairOfLines = 2 * kLines;
constexpr int64_t kDepth = 512;  // of a block
constexpr int64_t kRows = 256;
constexpr int64_t kCols = 512;

int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }
int64_t groups_of(int64_t depth) { return (depth + kGroup - 1) / kGroup; }

// Blocks along k are about equal: it depends on nothing else.
int64_t depth_of_blocks(int64_t k) {
  const int64_t blocks = (k + kDepth - 1) / kDepth;
  return groups_of((k + blocks - 1) / blocks) * kGroup;
}

// Packed rows of a, and packed columns of b, whose panels of sixteen are `b_panel` elements apart.
struct Block {
  const BFloat16* a;
  const BFloat16* b;
  int64_t b_panel, rows, cols, groups;
  float alpha;
  bool accumulate;
  float* c;
  int64_t ldc;
};

// Sixteen columns at a time of a tile beside c, to c.
void store_part(const float* beside, int64_t rows, int64_t cols, const Block& block, float* c) {
  const bool add = block.accumulate && block.alpha != 1.0F;
  const __m512 alpha = _mm512_set1_ps(block.alpha);
  for (int64_t j = 0; j < cols; j += kLines) {
    const auto mask = static_cast<__mmask16>(first_bits(cols - j, kLines));
    for (int64_t i = 0; i < rows; ++i) {
      float* const to = c + i * block.ldc + j;
      __m512 sum = _mm512_load_ps(beside + i * kPairOfLines + j);
      if (add) {
        sum = _mm512_fmadd_ps(alpha, sum, _mm512_maskz_loadu_ps(mask, to));
      } else if (block.alpha != 1.0F) {
        sum = _mm512_mul_ps(alpha, sum);
      }
      _mm512_mask_storeu_ps(to, mask, sum);
    }
  }
}

// A tile that reaches beyond c, or whose sum is scaled, is computed beside it: the same order.
void tile_beside(TileTask task, TileFunction multiply, int64_t rows, int64_t cols,
                 const Block& block) {
  alignas(64) float beside[kPairOfLines * kPairOfLines];
  float* const c = task.c;
  task.accumulate = block.accumulate && block.alpha == 1.0F;
  if (task.accumulate) {
    const int64_t tile_rows = rows > kLines ? kPairOfLines : kLines;
    const int64_t tile_cols = cols > kLines ? kPairOfLines : kLines;
    for (int64_t i = 0; i < tile_rows; ++i) {
      for (int64_t j = 0; j < tile_cols; j += kLines) {
        const auto mask = static_cast<__mmask16>(i < rows ? first_bits(cols - j, kLines) : 0);
        _mm512_store_ps(beside + i * kPairOfLines + j,
                        _mm512_maskz_loadu_ps(mask, c + i * block.ldc + j));
      }
    }
  }
  task.c = beside;
  task.row_bytes = kPairOfLines * static_cast<int64_t>(sizeof(float));
  multiply(task);
  store_part(beside, rows, cols, block, c);
}

// Lines of c that the next tile begins with or writes: its first instructions would wait for them.
void fetch(const float* c, int64_t rows, int64_t ldc) {
  for (int64_t i = 0; i < rows; ++i) {
    __builtin_prefetch(c + i * ldc, 1);
    __builtin_prefetch(c + i * ldc + kLines, 1);
  }
}

void tiles_of(const Block& block) {
  const int64_t a_panel = block.groups * kTileSize;
  for (int64_t j = 0; j < block.cols; j += kPairOfLines) {
    const int64_t cols = smaller(kPairOfLines, block.cols - j);
    for (int64_t i = 0; i < block.rows; i += kPairOfLines) {
      const int64_t rows = smaller(kPairOfLines, block.rows - i);
      float* const c = block.c + i * block.ldc + j;
      if (i + rows < block.rows) {
        fetch(c + rows * block.ldc, smaller(kPairOfLines, block.rows - i - rows), block.ldc);
      }
      const TileTask task{block.a + i / kLines * a_panel,
                          block.b + j / kLines * block.b_panel,
                          a_panel,
                          block.b_panel,
                          block.groups,
                          c,
                          block.ldc * static_cast<int64_t>(sizeof(float)),
                          block.accumulate};
      const TileFunction multiply = kTiles[cols > kLines ? 1 : 0][rows > kLines ? 1 : 0];
      const bool fits = rows % kLines == 0 && cols % kLines == 0 && block.alpha == 1.0F;
      if (fits) {
        multiply(task);
      } else {
        tile_beside(task, multiply, rows, cols, block);
      }
    }
  }
}

// Columns [col, col + cols) of c over [at, at + depth) of k. The panels of b begin there.
template <typename In>
void rows_of(const Product<In, float>& p, int64_t col, int64_t cols, int64_t at, int64_t depth,
             const BFloat16* b, int64_t b_panel) {
  alignas(64) BFloat16 packed_a[kRows * kDepth];
  for (int64_t row = 0; row < p.m; row += kRows) {
    const int64_t rows = smaller(kRows, p.m - row);
    pack<Side::kA>(p.a.data + row * p.a.row + at * p.a.col, p.a.row, p.a.col, rows, depth,
                   packed_a);
    tiles_of({packed_a, b, b_panel, rows, cols, groups_of(depth), p.alpha, p.accumulate || at > 0,
              p.c + row * p.ldc + col, p.ldc});
  }
}

void multiply_bf16(const Product<BFloat16, float>& p) {
  const TilesInUse tiles;
  alignas(64) BFloat16 packed_b[kDepth * kCols];
  const int64_t most = depth_of_blocks(p.k);
  for (int64_t col = 0; col < p.n; col += kCols) {
    const int64_t cols = smaller(kCols, p.n - col);
    for (int64_t at = 0; at < p.k; at += most) {
      const int64_t depth = smaller(most, p.k - at);
      pack<Side::kB>(p.b.data + at * p.b.row + col * p.b.col, p.b.col, p.b.row, cols, depth,
                     packed_b);
      rows_of(p, col, cols, at, depth, packed_b, groups_of(depth) * kTileSize);
    }
  }
}

template <typename In>
void multiply_by_packed(const Product<In, float>& p, const PackedColumns& b) {
  const TilesInUse tiles;
  const int64_t most = depth_of_blocks(p.k), b_panel = groups_of(b.depth) * kTileSize;
  for (int64_t col = 0; col < p.n; col += kCols) {
    const int64_t cols = smaller(kCols, p.n - col);
    for (int64_t at = 0; at < p.k; at += most) {
      const BFloat16* const from = b.data + col / kLines * b_panel + at / kGroup * kTileSize;
      rows_of(p, col, cols, at, smaller(most, p.k - at), from, b_panel);
    }
  }
}

void pack_columns(const Product<BFloat16, float>::Matrix& b, int64_t n, int64_t k, BFloat16* to) {
  pack<Side::kB>(b.data, b.col, b.row, n, k, to);
}

}  // namespace

extern const TileProducts kProductsV4Amx = {
    multiply_bf16, pack_columns, multiply_by_packed<BFloat16>, multiply_by_packed<float>};

}  // namespace tessera::kernels::cpu::levels
