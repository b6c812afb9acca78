// The one seam for matrix products: our own bodies, one for each level of the CPU (levels), or a
// CBLAS (library) in a build that asks for one. On the calling thread only.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace tessera::kernels::cpu {

namespace levels {
struct TileProducts;
}

// c[m,n] = alpha * op(a) op(b) + beta * c, row-major, op(x) = x or its transpose; ld* are the
// distances between stored rows; beta is 0 or 1. With beta == 0, the old c does not matter. Nothing
// outside the operands is touched, not even read. Safe to call from many threads.
template <typename T>
void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc);

// The same of bf16 and f16, summed in f32, where products take them as they are; alpha is 1.
bool gemm_takes_narrow();
template <typename In>
void gemm_narrow(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const In* a,
                 int64_t lda, const In* b, int64_t ldb, bool accumulate, float* c, int64_t ldc);

// Products of bf16 on tiles, where this process has them; else null. Their operands can be packed
// beforehand (levels/tiles.h).
const levels::TileProducts* tile_products();

// Keeps a library from starting threads of its own. Cheap; kernels call it before a region.
void use_one_blas_thread();

}  // namespace tessera::kernels::cpu
