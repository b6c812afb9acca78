// Single elements of a tensor as double, for code that is not on the way of a step.
#pragma once

#include "tensor/tensor.h"

namespace tessera {

inline double read_element(const Tensor& t, int64_t i) {
  switch (t.dtype) {
    case DType::kF64:
      return t.as<double>()[i];
    case DType::kF32:
      return static_cast<double>(t.as<float>()[i]);
    case DType::kBF16:
      return static_cast<double>(static_cast<float>(t.as<BFloat16>()[i]));
    case DType::kI32:
      return t.as<int32_t>()[i];
    case DType::kF16:
      return static_cast<double>(static_cast<float>(t.as<Float16>()[i]));
    case DType::kI64:
      return static_cast<double>(t.as<int64_t>()[i]);
    case DType::kU8:
      return t.as<uint8_t>()[i];
  }
  return 0;
}

inline void write_element(const Tensor& t, int64_t i, double value) {
  switch (t.dtype) {
    case DType::kF64:
      t.as<double>()[i] = value;
      return;
    case DType::kF32:
      t.as<float>()[i] = static_cast<float>(value);
      return;
    case DType::kBF16:
      t.as<BFloat16>()[i] = BFloat16(static_cast<float>(value));
      return;
    case DType::kI32:
      t.as<int32_t>()[i] = static_cast<int32_t>(value);
      return;
    case DType::kF16:
      t.as<Float16>()[i] = Float16(static_cast<float>(value));
      return;
    case DType::kI64:
      t.as<int64_t>()[i] = static_cast<int64_t>(value);
      return;
    case DType::kU8:
      t.as<uint8_t>()[i] = static_cast<uint8_t>(value);
      return;
  }
}

}  // namespace tessera
