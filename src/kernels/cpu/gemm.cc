#include "kernels/cpu/gemm.h"

#include "base/error.h"
#include "kernels/cpu/levels/product.h"
#include "kernels/cpu/levels/tiles.h"
#include "kernels/linear.h"
#include "tensor/cpu_level.h"

namespace tessera::kernels {
namespace cpu {

const levels::TileProducts* tile_products() {
  return cpu_level() >= CpuLevel::kV4Amx ? &levels::kProductsV4Amx : nullptr;
}

namespace {

const levels::Products& products() {
  return cpu_level() >= CpuLevel::kV4 ? levels::kProductsV4 : levels::kProductsV3;
}
void multiply(const levels::Product<float, float>& p) { products().f32(p); }
void multiply(const levels::Product<double, double>& p) { products().f64(p); }
void multiply(const levels::Product<Float16, float>& p) { products().f16(p); }
void multiply(const levels::Product<BFloat16, float>& p) {
  if (const levels::TileProducts* tiles = tile_products()) return tiles->bf16(p);
  if (cpu_level() >= CpuLevel::kV4Bf16) return levels::kProductsV4Bf16.bf16(p);
  products().bf16(p);
}

template <typename In, typename T>
void multiply_or_clear(bool trans_a, bool trans_b, const levels::Product<In, T>& product,
                       int64_t lda, int64_t ldb) {
  levels::Product<In, T> p = product;
  if (p.k == 0 && !p.accumulate) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) p.c[i * p.ldc + j] = T{0};
    }
  }
  if (p.m == 0 || p.n == 0 || p.k == 0) return;
  p.a.row = trans_a ? 1 : lda;
  p.a.col = trans_a ? lda : 1;
  p.b.row = trans_b ? 1 : ldb;
  p.b.col = trans_b ? ldb : 1;
  multiply(p);
}

}  // namespace

template <typename T>
void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  TESSERA_CHECK(beta == T{0} || beta == T{1}, "beta is {}", beta);
  multiply_or_clear<T, T>(trans_a, trans_b,
                          {{a, 0, 0}, {b, 0, 0}, m, n, k, alpha, beta == T{1}, c, ldc}, lda, ldb);
}

bool gemm_takes_narrow() { return true; }

template <typename In>
void gemm_narrow(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const In* a,
                 int64_t lda, const In* b, int64_t ldb, bool accumulate, float* c, int64_t ldc) {
  multiply_or_clear<In, float>(trans_a, trans_b,
                               {{a, 0, 0}, {b, 0, 0}, m, n, k, 1.0F, accumulate, c, ldc}, lda, ldb);
}

template void gemm<float>(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t,
                          const float*, int64_t, float, float*, int64_t);
template void gemm<double>(bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t,
                           const double*, int64_t, double, double*, int64_t);

template void gemm_narrow<BFloat16>(bool, bool, int64_t, int64_t, int64_t, const BFloat16*, int64_t,
                                    const BFloat16*, int64_t, bool, float*, int64_t);
template void gemm_narrow<Float16>(bool, bool, int64_t, int64_t, int64_t, const Float16*, int64_t,
                                   const Float16*, int64_t, bool, float*, int64_t);

void use_one_blas_thread() {}

}  // namespace cpu

const char* blas_name() {
  if (cpu_level() >= CpuLevel::kV4Amx) return "own, for AVX-512 and AMX tiles (v4-amx)";
  if (cpu_level() >= CpuLevel::kV4Bf16) return "own, for AVX-512 and AVX512_BF16 (v4-bf16)";
  return cpu_level() >= CpuLevel::kV4 ? "own, for AVX-512 (v4)" : "own, for AVX2 (v3)";
}

}  // namespace tessera::kernels
