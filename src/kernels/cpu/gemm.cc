#include "kernels/cpu/gemm.h"

#include <cblas.h>

#include <mutex>
#include <string>

#include "kernels/kernels.h"

#if defined(TESSERA_BLAS_IS_BLIS)
extern "C" {
char* bli_info_get_version_str(void);
void bli_thread_set_num_threads(long count);
}
#elif defined(TESSERA_BLAS_IS_OPENBLAS)
extern "C" {
char* openblas_get_config(void);
void openblas_set_num_threads(int count);
}
#else
#error "define TESSERA_BLAS_IS_BLIS or TESSERA_BLAS_IS_OPENBLAS"
#endif

namespace tessera::kernels {
namespace cpu {
namespace {

CBLAS_TRANSPOSE op(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }
int narrow_dim(int64_t value) { return static_cast<int>(value); }

}  // namespace

template <>
void gemm<float>(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                 const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
                 int64_t ldc) {
  if (m == 0 || n == 0) return;
  cblas_sgemm(CblasRowMajor, op(trans_a), op(trans_b), narrow_dim(m), narrow_dim(n), narrow_dim(k),
              alpha, a, narrow_dim(lda), b, narrow_dim(ldb), beta, c, narrow_dim(ldc));
}

template <>
void gemm<double>(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha,
                  const double* a, int64_t lda, const double* b, int64_t ldb, double beta,
                  double* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  cblas_dgemm(CblasRowMajor, op(trans_a), op(trans_b), narrow_dim(m), narrow_dim(n), narrow_dim(k),
              alpha, a, narrow_dim(lda), b, narrow_dim(ldb), beta, c, narrow_dim(ldc));
}

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
