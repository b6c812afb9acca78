// Shared by the kernel tests: owned arrays of any storage type, random numbers, comparison, and
// gradients by finite differences.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/workspace.h"
#include "kernels/kernels.h"
#include "tensor/element.h"

namespace tessera::kernels::testing {

using Rng = std::mt19937_64;

inline const std::vector<DType> kFloatTypes = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

// What weight gradients beside activations of a type may be stored in.
inline std::vector<DType> gradient_types(DType type) {
  if (type == DType::kBF16) return {DType::kF32, DType::kBF16};
  return {accumulate_type(type)};
}

// An owned tensor, full of NaN (or of -12345 for integers) until something is written.
class Array {
 public:
  Array(DType type, std::initializer_list<int64_t> dims) : tensor_(nullptr, type, dims) {
    bytes_.resize(static_cast<size_t>(tensor_.bytes()) + 1);
    tensor_.data = bytes_.data();
    for (int64_t i = 0; i < size(); ++i) {
      set(i, type == DType::kI32 ? -12345 : std::numeric_limits<double>::quiet_NaN());
    }
  }
  Array(const Array& other) : bytes_(other.bytes_), tensor_(other.tensor_) {
    tensor_.data = bytes_.data();
  }
  Array& operator=(const Array&) = delete;

  operator Tensor&() { return tensor_; }  // arrays stand for their tensors
  operator const Tensor&() const { return tensor_; }
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }
  [[nodiscard]] int64_t size() const { return tensor_.numel(); }
  [[nodiscard]] DType type() const { return tensor_.dtype; }

  [[nodiscard]] double get(int64_t i) const { return read_element(tensor_, i); }
  void set(int64_t i, double value) { write_element(tensor_, i, value); }
  [[nodiscard]] std::vector<double> values() const {
    std::vector<double> all;
    for (int64_t i = 0; i < size(); ++i) all.push_back(get(i));
    return all;
  }
  Array& fill(double value) {
    for (int64_t i = 0; i < size(); ++i) set(i, value);
    return *this;
  }
  Array& randomise(Rng& rng, double scale = 1) {
    std::normal_distribution<double> normal(0, scale);
    for (int64_t i = 0; i < size(); ++i) set(i, normal(rng));
    return *this;
  }
  [[nodiscard]] bool same_bits(const Array& other) const { return bytes_ == other.bytes_; }

 private:
  std::vector<std::byte> bytes_;
  Tensor tensor_;
};

// The same dims and values in another type.
inline Array convert(const Array& x, DType type) {
  const Tensor& t = x.tensor();
  Array y = t.num_dims == 1   ? Array(type, {t.dim(0)})
            : t.num_dims == 2 ? Array(type, {t.dim(0), t.dim(1)})
                              : Array(type, {t.dim(0), t.dim(1), t.dim(2)});
  for (int64_t i = 0; i < x.size(); ++i) y.set(i, x.get(i));
  return y;
}

// What a storage type may differ by, relative to the largest expected value.
inline double tolerance(DType type) {
  switch (type) {
    case DType::kF64:
      return 1e-12;
    case DType::kF32:
      return 4e-6;
    default:
      return 1e-2;
  }
}

inline void expect_close(const Array& actual, const std::vector<double>& expected,
                         double relative) {
  ASSERT_EQ(actual.size(), static_cast<int64_t>(expected.size()));
  double largest = 1e-30;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (int64_t i = 0; i < actual.size(); ++i) {
    const double want = expected[static_cast<size_t>(i)];
    ASSERT_LE(std::abs(actual.get(i) - want), relative * largest)
        << "element " << i << " of " << actual.size() << ": " << actual.get(i) << ", expected "
        << want << ", type " << name_of(actual.type());
  }
}

// A team and a workspace, each kernel call in its own Context.
class Rig {
 public:
  explicit Rig(int threads = 1, int64_t workspace_bytes = 0)
      : workers_(threads), workspace_(static_cast<size_t>(workspace_bytes), std::byte{0xff}) {}
  Context& ctx() { return context_; }
  StepParams& params() { return params_; }
  operator Context&() { return context_; }  // a rig stands for its context

 private:
  Workers workers_;
  std::vector<std::byte> workspace_;
  StepParams params_;
  Context context_{workers_, workspace_, &params_};
};

inline double dot(const Array& a, const Array& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i) sum += a.get(i) * b.get(i);
  return sum;
}

// d loss() / d x by central differences; x must be f64.
inline std::vector<double> numeric_gradient(Array& x, const std::function<double()>& loss) {
  std::vector<double> gradient;
  constexpr double kStep = 1e-5;
  for (int64_t i = 0; i < x.size(); ++i) {
    const double kept = x.get(i);
    x.set(i, kept + kStep);
    const double above = loss();
    x.set(i, kept - kStep);
    const double below = loss();
    x.set(i, kept);
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

constexpr double kNumericTolerance = 1e-7;

}  // namespace tessera::kernels::testing
