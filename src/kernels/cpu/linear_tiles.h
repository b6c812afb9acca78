// Linear layers in bf16 on tiles: what all members multiply by is packed once, by all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "tensor/workers.h"

namespace tessera::kernels::cpu {

// c[m,n] (+)= a[m,k] b[k,n], rounded once where Out is bf16. Element (i, j) of a matrix lies at i *
// row + j * col, and one of the two is 1.
template <typename Out>
struct TiledProduct {
  struct Matrix {
    const BFloat16* data;
    int64_t row, col;
  };
  Matrix a, b;
  Out* c;
  int64_t m, n, k;
  bool accumulate;
};

// Columns of b are packed into `workspace`, as many at a time as it holds, and then multiplied with
// all rows. False, and nothing is done, where there are no tiles, or it holds too few for that to
// be worth it: a member then packs for itself. The bits are the same.
template <typename Out>
bool multiply_packed_together(Workers& workers, const TiledProduct<Out>& p,
                              std::span<std::byte> workspace);

}  // namespace tessera::kernels::cpu
