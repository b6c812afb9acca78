// Test support: runs every rank of a world on its own thread and keeps what each one threw.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "comm/local/local_world.h"

namespace tessera::testing {

inline std::vector<int> iota_ranks(int size) {
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Calls f(rank) for every rank at once; returns the text of what each threw, empty where nothing.
// A failing rank does not abort the world: that is the communicators' own job.
inline std::vector<std::string> run_ranks(int size, const std::function<void(int)>& f) {
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        f(rank);
      } catch (const CommError& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = std::string("not a CommError: ") + error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline void expect_no_errors(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

// The dtype of an element type and the type it is added in.
template <typename T>
struct Element;
template <>
struct Element<double> {
  static constexpr DType kDType = DType::kF64;
  using Acc = double;
};
template <>
struct Element<float> {
  static constexpr DType kDType = DType::kF32;
  using Acc = float;
};
template <>
struct Element<BFloat16> {
  static constexpr DType kDType = DType::kBF16;
  using Acc = float;
};
template <>
struct Element<int32_t> {
  static constexpr DType kDType = DType::kI32;
  using Acc = uint32_t;  // wraps
};

// Values of many magnitudes and both signs, so that the order of a sum shows in its bits.
template <typename T>
T test_value(int rank, int64_t i) {
  uint64_t h = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15U + static_cast<uint64_t>(rank + 1);
  h = (h ^ (h >> 29)) * 0xBF58476D1CE4E5B9U;
  h ^= h >> 32;
  if constexpr (std::is_same_v<T, int32_t>) {
    return static_cast<int32_t>(static_cast<uint32_t>(h));
  } else {
    const double magnitude = static_cast<double>(1U << (h % 20)) / 1024.0;
    const double value = (static_cast<double>(h >> 40) / 16777216.0 - 0.5) * magnitude;
    return static_cast<T>(static_cast<typename Element<T>::Acc>(h % 97 == 0 ? -0.0 : value));
  }
}

template <typename T>
std::vector<T> test_values(int rank, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = test_value<T>(rank, i);
  return values;
}

// The plain sum in order of rank.
template <typename T>
std::vector<T> reference_sum(const std::vector<std::vector<T>>& inputs) {
  using Acc = typename Element<T>::Acc;
  std::vector<T> sums(inputs[0]);
  for (size_t i = 0; i < sums.size() && inputs.size() > 1; ++i) {
    Acc sum = static_cast<Acc>(inputs[0][i]);
    for (size_t rank = 1; rank < inputs.size(); ++rank) sum += static_cast<Acc>(inputs[rank][i]);
    sums[i] = static_cast<T>(sum);
  }
  return sums;
}

template <typename T>
::testing::AssertionResult same_bits(const T* actual, const T* expected, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (std::memcmp(actual + i, expected + i, sizeof(T)) == 0) continue;
    return ::testing::AssertionFailure() << "element " << i << " of " << count << " differs";
  }
  return ::testing::AssertionSuccess();
}

}  // namespace tessera::testing
