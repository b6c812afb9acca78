#include "kernels/cpu/gemm.h"

#include "base/error.h"
#include "kernels/cpu/levels/product.h"
#include "kernels/linear.h"
#include "tensor/cpu_level.h"

namespace tessera::kernels {
namespace cpu {
namespace {

const levels::Products& products() {
  return cpu_level() >= CpuLevel::kV4 ? levels::kProductsV4 : levels::kProductsV3;
}
void multiply(const levels::Product<float, float>& p) { products().f32(p); }
void multiply(const levels::Product<double, double>& p) { products().f64(p); }

}  // namespace

template <typename T>
void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  TESSERA_CHECK(beta == T{0} || beta == T{1}, "beta is {}", beta);
  const bool accumulate = beta == T{1};
  if (k == 0 && !accumulate) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) c[i * ldc + j] = T{0};
    }
  }
  if (m == 0 || n == 0 || k == 0) return;
  multiply(levels::Product<T, T>{{a, trans_a ? 1 : lda, trans_a ? lda : 1},
                                 {b, trans_b ? 1 : ldb, trans_b ? ldb : 1},
                                 m,
                                 n,
                                 k,
                                 alpha,
                                 accumulate,
                                 c,
                                 ldc});
}

template void gemm<float>(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t,
                          const float*, int64_t, float, float*, int64_t);
template void gemm<double>(bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t,
                           const double*, int64_t, double, double*, int64_t);

void use_one_blas_thread() {}

}  // namespace cpu

const char* blas_name() {
  return cpu_level() >= CpuLevel::kV4 ? "own, for AVX-512 (v4)" : "own, for AVX2 (v3)";
}

}  // namespace tessera::kernels
