// Matrix products of one instruction set (a level), compiled for it alone. What is compiled here
// may use more than other code may, so nothing but the functions below leaves an object of this
// folder: templates take a type of the source that uses them, and functions of other headers are
// called only where they are always inlined.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace tessera::kernels::cpu::levels {

// c[m,n] = alpha * a b, plus what c was where `accumulate` says so. Element (i, j) of a stored
// matrix lies at i * row + j * col, and one of its two strides is 1. Inputs of In are widened to T.
// The sum of an element is taken along k in blocks whose length depends on k alone: in each one
// chain of fused multiply-adds, in order. So every level gives the same bits, whatever m, n and the
// tile.
template <typename In, typename T>
struct Product {
  struct Matrix {
    const In* data;
    int64_t row, col;
  };
  Matrix a, b;
  int64_t m, n, k;
  T alpha;
  bool accumulate;
  T* c;
  int64_t ldc;
};

// The products of a level. Nothing is allocated, and nothing outside the operands is touched, not
// even read: what is packed lies on the stack, less than 1.5 MiB of it.
struct Products {
  void (*f32)(const Product<float, float>&);
  void (*f64)(const Product<double, double>&);
  void (*bf16)(const Product<BFloat16, float>&);
  void (*f16)(const Product<Float16, float>&);
};

extern const Products kProductsV3;  // AVX2 and FMA
extern const Products kProductsV4;  // AVX-512

// Neighbours along k in pairs, as AVX512_BF16 multiplies them: twice as many at once. A pair is
// added to the sum with numbers below 2^-126 as zero, so the bits are not those of the other
// levels.
struct PairProducts {
  void (*bf16)(const Product<BFloat16, float>&);
};
extern const PairProducts kProductsV4Bf16;

}  // namespace tessera::kernels::cpu::levels
