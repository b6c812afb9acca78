#include "kernels/cpu/gemm.h"

#include <mutex>
#include <string>

#include "base/error.h"
#include "kernels/linear.h"

#if defined(TESSERA_BLAS_IS_BLIS)
#include <blis.h>
#elif defined(TESSERA_BLAS_IS_OPENBLAS)
#include <cblas.h>
extern "C" char* openblas_get_config(void);
extern "C" void openblas_set_num_threads(int count);
#else
#error "define TESSERA_BLAS_IS_BLIS or TESSERA_BLAS_IS_OPENBLAS"
#endif

namespace tessera::kernels {
namespace cpu {
namespace {

#if defined(TESSERA_BLAS_IS_BLIS)

trans_t op(bool transposed) { return transposed ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE; }

// BLIS's kernels for small unpacked operands read past the end of them (0.9: up to rows of a in
// a b^T, 16 bytes of c otherwise), so every product takes the packed path.
rntm_t packed_only() {
  rntm_t runtime;
  bli_rntm_init_from_global(&runtime);
  bli_rntm_disable_l3_sup(&runtime);
  return runtime;
}

void call(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
          int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  rntm_t runtime = packed_only();
  // BLIS takes its inputs through plain pointers but does not write to them.
  bli_sgemm_ex(op(trans_a), op(trans_b), m, n, k, &alpha, const_cast<float*>(a), lda, 1,
               const_cast<float*>(b), ldb, 1, &beta, c, ldc, 1, nullptr, &runtime);
}

void call(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha,
          const double* a, int64_t lda, const double* b, int64_t ldb, double beta, double* c,
          int64_t ldc) {
  rntm_t runtime = packed_only();
  bli_dgemm_ex(op(trans_a), op(trans_b), m, n, k, &alpha, const_cast<double*>(a), lda, 1,
               const_cast<double*>(b), ldb, 1, &beta, c, ldc, 1, nullptr, &runtime);
}

#else

CBLAS_TRANSPOSE op(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }
blasint size(int64_t value) { return static_cast<blasint>(value); }

void call(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
          int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  cblas_sgemm(CblasRowMajor, op(trans_a), op(trans_b), size(m), size(n), size(k), alpha, a,
              size(lda), b, size(ldb), beta, c, size(ldc));
}

void call(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha,
          const double* a, int64_t lda, const double* b, int64_t ldb, double beta, double* c,
          int64_t ldc) {
  cblas_dgemm(CblasRowMajor, op(trans_a), op(trans_b), size(m), size(n), size(k), alpha, a,
              size(lda), b, size(ldb), beta, c, size(ldc));
}

#endif

}  // namespace

template <typename T>
void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  call(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

template void gemm<float>(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t,
                          const float*, int64_t, float, float*, int64_t);
template void gemm<double>(bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t,
                           const double*, int64_t, double, double*, int64_t);

bool gemm_takes_narrow() { return false; }

const levels::TileProducts* tile_products() { return nullptr; }

template <typename In>
void gemm_narrow(bool, bool, int64_t, int64_t, int64_t, const In*, int64_t, const In*, int64_t,
                 bool, float*, int64_t) {
  TESSERA_CHECK(false, "the library multiplies f32 and f64");
}
template void gemm_narrow<BFloat16>(bool, bool, int64_t, int64_t, int64_t, const BFloat16*, int64_t,
                                    const BFloat16*, int64_t, bool, float*, int64_t);
template void gemm_narrow<Float16>(bool, bool, int64_t, int64_t, int64_t, const Float16*, int64_t,
                                   const Float16*, int64_t, bool, float*, int64_t);

void use_one_blas_thread() {
  static std::once_flag once;
  std::call_once(once, [] {
#if defined(TESSERA_BLAS_IS_BLIS)
    bli_thread_set_num_threads(1);
#else
    openblas_set_num_threads(1);
#endif
  });
}

}  // namespace cpu

const char* blas_name() {
#if defined(TESSERA_BLAS_IS_BLIS)
  static const std::string name = std::string("BLIS ") + bli_info_get_version_str();
#else
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": the first two words.
  static const std::string name = [] {
    const std::string config = openblas_get_config();
    return config.substr(0, config.find(' ', config.find(' ') + 1));
  }();
#endif
  return name.c_str();
}

}  // namespace tessera::kernels
