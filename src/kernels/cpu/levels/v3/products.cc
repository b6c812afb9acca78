// Products with AVX2 and FMA: tiles of 6 rows, each two registers of 32 bytes.
#include "kernels/cpu/levels/product_loops.h"
#include "kernels/cpu/levels/tile_asm.h"

namespace tessera::kernels::cpu::levels {
namespace {

#define TILE_V "%%ymm"
#define TILE_VECTOR "32"
#define TILE_B_STEP "64"
#define TILE_ZERO "vxorps"
#define TILE_CLOBBERS                                                                      \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"

#define TILE_P "ps"
#define TILE_TIMES "vfmadd231ps"
#define TILE_BROAD "vbroadcastss"
#define TILE_ELEMENT "4"
#define TILE_A_STEP "24"
#define TILE_SECOND(x) x
TILE_FUNCTION(f32_rows_2, float, 2)
TILE_IN_PLACE(f32_in_place_2, float, 2)
TILE_FUNCTION(f32_rows_4, float, 4)
TILE_IN_PLACE(f32_in_place_4, float, 4)
TILE_FUNCTION(f32_rows_6, float, 6)
TILE_IN_PLACE(f32_in_place_6, float, 6)
#undef TILE_SECOND
#define TILE_SECOND(x)
TILE_FUNCTION(f32_half_rows_2, float, 2)
TILE_IN_PLACE(f32_half_in_place_2, float, 2)
TILE_FUNCTION(f32_half_rows_4, float, 4)
TILE_IN_PLACE(f32_half_in_place_4, float, 4)
TILE_FUNCTION(f32_half_rows_6, float, 6)
TILE_IN_PLACE(f32_half_in_place_6, float, 6)
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
#define TILE_A_STEP "48"
#define TILE_SECOND(x) x
TILE_FUNCTION(f64_rows_2, double, 2)
TILE_IN_PLACE(f64_in_place_2, double, 2)
TILE_FUNCTION(f64_rows_4, double, 4)
TILE_IN_PLACE(f64_in_place_4, double, 4)
TILE_FUNCTION(f64_rows_6, double, 6)
TILE_IN_PLACE(f64_in_place_6, double, 6)
#undef TILE_SECOND
#define TILE_SECOND(x)
TILE_FUNCTION(f64_half_rows_2, double, 2)
TILE_IN_PLACE(f64_half_in_place_2, double, 2)
TILE_FUNCTION(f64_half_rows_4, double, 4)
TILE_IN_PLACE(f64_half_in_place_4, double, 4)
TILE_FUNCTION(f64_half_rows_6, double, 6)
TILE_IN_PLACE(f64_half_in_place_6, double, 6)

struct TilesF32 {
  using Element = float;
  using Pack = Packing<TilesF32>;
  static constexpr int kRows = 6, kCols = 16, kRowStep = 2;
  static constexpr TileFunction<float> kTiles[2][3] = {
      {f32_rows_2, f32_rows_4, f32_rows_6}, {f32_half_rows_2, f32_half_rows_4, f32_half_rows_6}};
  static constexpr InPlaceFunction<float> kInPlace[2][3] = {
      {f32_in_place_2, f32_in_place_4, f32_in_place_6},
      {f32_half_in_place_2, f32_half_in_place_4, f32_half_in_place_6}};
};

struct TilesF64 {
  using Element = double;
  using Pack = Packing<TilesF64>;
  static constexpr int kRows = 6, kCols = 8, kRowStep = 2;
  static constexpr TileFunction<double> kTiles[2][3] = {
      {f64_rows_2, f64_rows_4, f64_rows_6}, {f64_half_rows_2, f64_half_rows_4, f64_half_rows_6}};
  static constexpr InPlaceFunction<double> kInPlace[2][3] = {
      {f64_in_place_2, f64_in_place_4, f64_in_place_6},
      {f64_half_in_place_2, f64_half_in_place_4, f64_half_in_place_6}};
};

}  // namespace

extern const Products kProductsV3 = {
    ProductLoops<TilesF32>::run<float>, ProductLoops<TilesF64>::run<double>,
    ProductLoops<TilesF32>::run<BFloat16>, ProductLoops<TilesF32>::run<Float16>};

}  // namespace tessera::kernels::cpu::levels
