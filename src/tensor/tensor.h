// A borrowed, dense, row-major tensor in memory. Owns nothing: arenas own the bytes.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "base/dtype.h"
#include "base/error.h"

namespace tessera {

struct Tensor {
  static constexpr int kMaxDims = 4;

  void* data = nullptr;
  DType dtype = DType::kF32;
  int num_dims = 0;
  std::array<int64_t, kMaxDims> dims{};

  Tensor() = default;
  Tensor(void* data_in, DType dtype_in, std::initializer_list<int64_t> dims_in)
      : data(data_in), dtype(dtype_in), num_dims(static_cast<int>(dims_in.size())) {
    TESSERA_CHECK(dims_in.size() <= kMaxDims, "tensor with {} dims", dims_in.size());
    int i = 0;
    for (const int64_t d : dims_in) dims[static_cast<size_t>(i++)] = d;
  }

  [[nodiscard]] int64_t dim(int i) const { return dims[static_cast<size_t>(i)]; }
  [[nodiscard]] int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < num_dims; ++i) n *= dim(i);
    return n;
  }
  [[nodiscard]] int64_t bytes() const { return numel() * size_bytes(dtype); }
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data);
  }
};

}  // namespace tessera
