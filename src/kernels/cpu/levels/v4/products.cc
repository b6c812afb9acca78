// Products with AVX-512: tiles of 12 rows, each two registers of 64 bytes.
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
#define TILE_TIMES "vfmadd231ps"
#define TILE_BROAD "vbroadcastss"
#define TILE_ELEMENT "4"
#define TILE_A_STEP "48"
#define TILE_SECOND(x) x
TILE_FUNCTION(f32_rows_4, float, 4)
TILE_IN_PLACE(f32_in_place_4, float, 4)
TILE_FUNCTION(f32_rows_8, float, 8)
TILE_IN_PLACE(f32_in_place_8, float, 8)
TILE_FUNCTION(f32_rows_12, float, 12)
TILE_IN_PLACE(f32_in_place_12, float, 12)
#undef TILE_SECOND
#define TILE_SECOND(x)
TILE_FUNCTION(f32_half_rows_4, float, 4)
TILE_IN_PLACE(f32_half_in_place_4, float, 4)
TILE_FUNCTION(f32_half_rows_8, float, 8)
TILE_IN_PLACE(f32_half_in_place_8, float, 8)
TILE_FUNCTION(f32_half_rows_12, float, 12)
TILE_IN_PLACE(f32_half_in_place_12, float, 12)
#undef TILE_SECOND
#undef TILE_P
#undef TILE_TIMES
#undef TILE_BROAD
#undef TILE_ELEMENT
#undef TILE_A_STEP

#define TILE_P "pd"
#define TILE_TIMES "vfmadd231pd"
#define TILE_BROAD "vbroadcastsd"
#define TILE_ELEMENT "8"
#define TILE_A_STEP "96"
#define TILE_SECOND(x) x
TILE_FUNCTION(f64_rows_4, double, 4)
TILE_IN_PLACE(f64_in_place_4, double, 4)
TILE_FUNCTION(f64_rows_8, double, 8)
TILE_IN_PLACE(f64_in_place_8, double, 8)
TILE_FUNCTION(f64_rows_12, double, 12)
TILE_IN_PLACE(f64_in_place_12, double, 12)
#undef TILE_SECOND
#define TILE_SECOND(x)
TILE_FUNCTION(f64_half_rows_4, double, 4)
TILE_IN_PLACE(f64_half_in_place_4, double, 4)
TILE_FUNCTION(f64_half_rows_8, double, 8)
TILE_IN_PLACE(f64_half_in_place_8, double, 8)
TILE_FUNCTION(f64_half_rows_12, double, 12)
TILE_IN_PLACE(f64_half_in_place_12, double, 12)

struct TilesF32 {
  using Element = float;
  using Pack = Packing<TilesF32>;
  static constexpr int kRows = 12, kCols = 32, kRowStep = 4;
  static constexpr TileFunction<float> kTiles[2][3] = {
      {f32_rows_4, f32_rows_8, f32_rows_12}, {f32_half_rows_4, f32_half_rows_8, f32_half_rows_12}};
  static constexpr InPlaceFunction<float> kInPlace[2][3] = {
      {f32_in_place_4, f32_in_place_8, f32_in_place_12},
      {f32_half_in_place_4, f32_half_in_place_8, f32_half_in_place_12}};
};

struct TilesF64 {
  using Element = double;
  using Pack = Packing<TilesF64>;
  static constexpr int kRows = 12, kCols = 16, kRowStep = 4;
  static constexpr TileFunction<double> kTiles[2][3] = {
      {f64_rows_4, f64_rows_8, f64_rows_12}, {f64_half_rows_4, f64_half_rows_8, f64_half_rows_12}};
  static constexpr InPlaceFunction<double> kInPlace[2][3] = {
      {f64_in_place_4, f64_in_place_8, f64_in_place_12},
      {f64_half_in_place_4, f64_half_in_place_8, f64_half_in_place_12}};
};

}  // namespace

extern const Products kProductsV4 = {
    ProductLoops<TilesF32>::run<float>, ProductLoops<TilesF64>::run<double>,
    ProductLoops<TilesF32>::run<BFloat16>, ProductLoops<TilesF32>::run<Float16>};

}  // namespace tessera::kernels::cpu::levels
