// What serving multiplies, for one instruction set (product.h says how the objects of a level are
// kept apart).
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/workspace.h"

namespace tessera::kernels::cpu::levels {

// Inner products of rows of weights of W with a tile of tokens, whose inputs lie packed: `step`
// elements of each token beside those of the next. Sums are of T, those of token t and row n at [n
// * workspace::kServeTileTokens + t]. The bits of a sum depend on nothing but its own operands.
template <typename W, typename T>
struct RowProducts {
  int step;         // elements that are multiplied at once
  int tile;         // tokens at once where there are many; of one, `rows_of_one` rows are
  int rows_of_one;  // taken at once
  bool as_stored;   // inputs are packed as they are stored, not widened
  // By the number of tokens: rows [0, count) of w, `ld` apart, over `length` of K.
  void (*add[workspace::kServeTileTokens + 1])(const void* x, const W* w, int64_t ld, int64_t count,
                                               int64_t length, T* sums);
};

// A few rows of attention on a tile of kPageTile keys; `rows` is 1 or 4. Every level gives the same
// bits.
template <typename T>
struct PagedRows {
  // scores[r, key] = queries[r, 0 .. dim) . keys[0 .. dim, key], for all keys of the tile.
  void (*score)(int rows, const T* queries, int64_t width, const T* keys, int64_t dim, T* scores);
  // out[r, 0 .. width) += weights[r, key] * values[key, 0 .. width), for the keys [begin, end).
  void (*add_values)(int rows, const T* weights, const T* values, int64_t width, int64_t begin,
                     int64_t end, T* out);
};
// Rows of queries, values and results are filled up to a multiple of so many bytes.
inline constexpr int64_t kPagedRowBytes = 64;

struct Serving {
  RowProducts<float, float> f32;
  RowProducts<double, double> f64;
  RowProducts<BFloat16, float> bf16;
  RowProducts<Float16, float> f16;
  PagedRows<float> paged_f32;
  PagedRows<double> paged_f64;
};

extern const Serving kServingBase;
extern const Serving kServingV3;
extern const Serving kServingV4;
extern const Serving kServingV4Bf16;  // AVX512_BF16: neighbours in bf16 are multiplied in pairs

}  // namespace tessera::kernels::cpu::levels
