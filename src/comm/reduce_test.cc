#include "comm/reduce.h"

#include <sys/mman.h>

#include <cmath>
#include <limits>

#include "comm/copy.h"
#include "comm/testing/local_ranks.h"

namespace tessera {
namespace {

using namespace tessera::testing;

constexpr size_t kPeriod = size_t{1} << 28;

// Three buffers whose addresses agree modulo 2^28; only touched pages take memory.
class AliasedBuffers {
 public:
  AliasedBuffers() {
    void* block = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED) throw Error("no address space for the test");
    base_ = static_cast<char*>(block);
  }
  ~AliasedBuffers() { munmap(base_, kBytes); }
  AliasedBuffers(const AliasedBuffers&) = delete;
  AliasedBuffers& operator=(const AliasedBuffers&) = delete;

  template <typename T>
  T* at(int i) {
    return reinterpret_cast<T*>(base_ + static_cast<size_t>(i) * kPeriod);
  }

 private:
  static constexpr size_t kBytes = 2 * kPeriod + (size_t{1} << 20);
  char* base_ = nullptr;
};

TEST(SumTest, ChoosesBlockedForAliasedBases) {
  AliasedBuffers buffers;
  float* a = buffers.at<float>(0);
  float* b = buffers.at<float>(1);
  const auto choose = [](std::vector<const void*> sources, std::vector<void*> targets) {
    return choose_reduce_kernel(sources, targets);
  };
  EXPECT_EQ(choose({a, b}, {a, b}), ReduceKernel::kBlocked);
  EXPECT_EQ(choose({a, a + 1024}, {b}), ReduceKernel::kBlocked);
  EXPECT_EQ(choose({a, b + 1024}, {a, b + 1024}), ReduceKernel::kInterleaved);
  EXPECT_EQ(choose({a, a + 1024}, {a}), ReduceKernel::kInterleaved);
}

TEST(SumTest, StreamsLargeResultsThatOverwriteNoSource) {
  alignas(64) float a[32], b[32], c[32];
  const auto choose = [](std::vector<const void*> sources, std::vector<void*> targets,
                         int64_t result_bytes) {
    return choose_reduce_kernel(sources, targets, result_bytes);
  };
  EXPECT_EQ(choose({a, b}, {c}, kStreamedBytes), ReduceKernel::kStreamed);
  EXPECT_EQ(choose({a, b}, {c}, kStreamedBytes - 1), ReduceKernel::kInterleaved);
  EXPECT_EQ(choose({a, b}, {c, b}, kStreamedBytes), ReduceKernel::kInterleaved);
  EXPECT_EQ(choose({a, b}, {c + 1}, kStreamedBytes), ReduceKernel::kInterleaved);
}

template <typename T>
class SumKernelTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<double, float, BFloat16, int32_t>;
TYPED_TEST_SUITE(SumKernelTest, ElementTypes);

TYPED_TEST(SumKernelTest, KernelsGiveReferenceBits) {
  using T = TypeParam;
  for (const int64_t count : {1, 15, 16, 33, 1023, 1024, 5001}) {
    std::vector<std::vector<T>> inputs;
    for (int rank = 0; rank < 5; ++rank) inputs.push_back(test_values<T>(rank, count));
    const std::vector<T> expected = reference_sum(inputs);
    for (const ReduceKernel kernel : {ReduceKernel::kInterleaved, ReduceKernel::kBlocked}) {
      std::vector<T> apart(static_cast<size_t>(count));
      std::vector<std::vector<T>> data = inputs;
      std::vector<const void*> sources;
      for (const std::vector<T>& x : data) sources.push_back(x.data());
      std::vector<void*> targets = {apart.data(), data[0].data(), data[3].data()};
      reduce_in_order(kernel, ReduceOp::kSum, Element<T>::kDType, sources, targets, count);
      EXPECT_TRUE(same_bits(apart.data(), expected.data(), count));
      EXPECT_TRUE(same_bits(data[0].data(), expected.data(), count));
      EXPECT_TRUE(same_bits(data[3].data(), expected.data(), count));
      EXPECT_TRUE(same_bits(data[1].data(), inputs[1].data(), count));
    }
  }
}

TYPED_TEST(SumKernelTest, StreamedKernelGivesReferenceBits) {
  using T = TypeParam;
  alignas(64) T result[2][5056];
  for (const int64_t count : {1, 33, 1024, 5001}) {
    std::vector<std::vector<T>> inputs;
    std::vector<const void*> sources;
    for (int rank = 0; rank < 3; ++rank) inputs.push_back(test_values<T>(rank, count));
    for (const std::vector<T>& x : inputs) sources.push_back(x.data());
    const std::vector<T> expected = reference_sum(inputs);
    std::vector<void*> targets = {result[0], result[1]};
    reduce_in_order(ReduceKernel::kStreamed, ReduceOp::kSum, Element<T>::kDType, sources, targets,
                    count);
    EXPECT_TRUE(same_bits(result[0], expected.data(), count));
    EXPECT_TRUE(same_bits(result[1], expected.data(), count));
  }
}

TYPED_TEST(SumKernelTest, AliasedBuffersThroughTheCommunicator) {
  using T = TypeParam;
  constexpr int kRanks = 3;
  constexpr int64_t kCount = 20'001;
  AliasedBuffers buffers;
  std::vector<std::vector<T>> inputs;
  for (int rank = 0; rank < kRanks; ++rank) inputs.push_back(test_values<T>(rank, kCount));
  const std::vector<T> expected = reference_sum(inputs);
  LocalWorld world({.size = kRanks, .timeout = std::chrono::seconds(20)});
  expect_no_errors(run_ranks(kRanks, [&](int rank) {
    const auto comm = world.join("world", iota_ranks(kRanks), rank);
    T* data = buffers.at<T>(rank);
    const std::vector<T>& mine = inputs[static_cast<size_t>(rank)];
    std::copy(mine.begin(), mine.end(), data);
    comm->all_reduce(data, kCount, Element<T>::kDType, 0);
    EXPECT_TRUE(same_bits(data, expected.data(), kCount));
  }));
}

TEST(SumTest, Bf16RoundsOnceAndKeepsNaN) {
  const float inf = std::numeric_limits<float>::infinity();
  // 256 + 1 + 1: rounding after every addition would lose both ones.
  std::vector<BFloat16> a(64, BFloat16(256.0F));
  std::vector<BFloat16> b(64, BFloat16(1.0F));
  std::vector<BFloat16> c(64, BFloat16(1.0F));
  a[3] = BFloat16(inf);
  b[3] = BFloat16(-inf);
  a[40] = BFloat16(inf);
  std::vector<BFloat16> sum(64);
  const std::vector<const void*> sources = {a.data(), b.data(), c.data()};
  const std::vector<void*> targets = {sum.data()};
  reduce_in_order(ReduceKernel::kInterleaved, ReduceOp::kSum, DType::kBF16, sources, targets, 64);
  EXPECT_EQ(static_cast<float>(sum[0]), 258.0F);
  EXPECT_TRUE(std::isnan(static_cast<float>(sum[3])));
  EXPECT_EQ(static_cast<float>(sum[40]), inf);
}

}  // namespace
}  // namespace tessera
