// Products of bf16 with AVX512_BF16: a tile's elements are pairs of neighbours along k.
#include "kernels/cpu/levels/product_loops.h"
#include "kernels/cpu/levels/tile_asm.h"

namespace tessera::kernels::cpu::levels {
namespace {

#define TILE_V "%%zmm"
#define TILE_VECTOR "64"
#define TILE_B_STEP "128"
#define TILE_ZERO "vpxord"
#define TILE_CLOBBERS                                                                           \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",      \
      "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", \
      "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", \
      "xmm31"

#define TILE_P "ps"
#define TILE_TIMES "vdpbf16ps"
#define TILE_BROAD "vbroadcastss"
#define TILE_ELEMENT "4"
#define TILE_A_STEP "48"
#define TILE_SECOND(x) x
TILE_FUNCTION(pair_rows_4, float, 4)
TILE_FUNCTION(pair_rows_8, float, 8)
TILE_FUNCTION(pair_rows_12, float, 12)
#undef TILE_SECOND
#define TILE_SECOND(x)
TILE_FUNCTION(pair_half_rows_4, float, 4)
TILE_FUNCTION(pair_half_rows_8, float, 8)
TILE_FUNCTION(pair_half_rows_12, float, 12)

struct TilesPairs {
  using Element = float;  // as wide as a pair
  using Pack = Packing<TilesPairs, true>;
  static constexpr int kRows = 12, kCols = 32, kRowStep = 4;
  static constexpr TileFunction<float> kTiles[2][3] = {
      {pair_rows_4, pair_rows_8, pair_rows_12},
      {pair_half_rows_4, pair_half_rows_8, pair_half_rows_12}};
};

}  // namespace

extern const PairProducts kProductsV4Bf16 = {ProductLoops<TilesPairs>::run<BFloat16>};

}  // namespace tessera::kernels::cpu::levels
