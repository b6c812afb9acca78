#include "bench/bench_pattern.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

// Prime, so that no slice or block is a multiple of it.
constexpr int64_t kPeriod = 61;
constexpr int kStale = 0xA5;

using Values = std::array<double, kPeriod>;

uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// Up to where the type has every whole number.
int64_t largest_exact(DType dtype) {
  if (dtype == DType::kBF16) return 256;
  return dtype == DType::kF16 ? 2048 : 1 << 20;
}

class Pattern {
 public:
  Pattern(const BenchCase& bench, uint64_t seed) : bench_(bench), seed_(seed) {
    const int64_t n = bench.ranks;
    range_ = std::clamp<int64_t>(largest_exact(bench.dtype) / n - 2 * n, 2, 97);
  }

  // What one rank sends to one place, or contributes to a sum.
  [[nodiscard]] Values contribution(int from, int to) const {
    const auto block = static_cast<uint64_t>(from) * 100'003 + static_cast<uint64_t>(to);
    Values values;
    for (int64_t i = 0; i < kPeriod; ++i) {
      const uint64_t hash = mix(mix(seed_ * 1'000'003 + block) + static_cast<uint64_t>(i));
      values[static_cast<size_t>(i)] = static_cast<double>(hash % static_cast<uint64_t>(range_));
    }
    if (reduces(bench_.op) && bench_.reduce == ReduceOp::kMean) make_mean_whole(values, from);
    return values;
  }

  [[nodiscard]] Values reduction() const {
    Values total = contribution(0, 0);
    for (int rank = 1; rank < bench_.ranks; ++rank) {
      const Values term = contribution(rank, 0);
      for (size_t i = 0; i < kPeriod; ++i) combine(total[i], term[i]);
    }
    if (bench_.reduce == ReduceOp::kMean) {
      for (double& value : total) value /= bench_.ranks;
    }
    return total;
  }

 private:
  // The same on all ranks, but for a part that adds up to n (n - 1).
  void make_mean_whole(Values& values, int rank) const {
    const int64_t n = bench_.ranks;
    for (int64_t i = 0; i < kPeriod; ++i) {
      const uint64_t shared = mix(seed_ + static_cast<uint64_t>(i)) % static_cast<uint64_t>(range_);
      values[static_cast<size_t>(i)] =
          static_cast<double>(static_cast<int64_t>(shared) + 2 * ((rank + i) % n));
    }
  }

  void combine(double& total, double term) const {
    switch (bench_.reduce) {
      case ReduceOp::kSum:
      case ReduceOp::kMean:
      case ReduceOp::kTreeSum:
      case ReduceOp::kTwinSum:
        total += term;
        break;
      case ReduceOp::kMax:
        total = std::max(total, term);
        break;
      case ReduceOp::kMin:
        total = std::min(total, term);
        break;
    }
  }

  const BenchCase& bench_;
  uint64_t seed_;
  int64_t range_;
};

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

void encode(double value, DType dtype, std::byte* to) {
  switch (dtype) {
    case DType::kF64:
      return store(to, value);
    case DType::kF32:
      return store(to, static_cast<float>(value));
    case DType::kBF16:
      return store(to, BFloat16(static_cast<float>(value)));
    case DType::kF16:
      return store(to, Float16(static_cast<float>(value)));
    case DType::kI32:
      return store(to, static_cast<int32_t>(value));
    case DType::kI64:
      return store(to, static_cast<int64_t>(value));
    case DType::kU8:  // integers wrap
      return store(to, static_cast<uint8_t>(static_cast<int64_t>(value)));
  }
}

// A part of an array that holds one periodic sequence, from its element `phase` on.
struct Block {
  std::byte* begin = nullptr;
  int64_t count = 0;
  int64_t phase = 0;
  Values values{};
};

// One period of the block's elements, beginning with its first.
std::vector<std::byte> encoded_period(const Block& block, DType dtype) {
  const int64_t element = size_bytes(dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(kPeriod * element));
  for (int64_t i = 0; i < kPeriod; ++i) {
    const auto at = static_cast<size_t>((block.phase + i) % kPeriod);
    encode(block.values[at], dtype, bytes.data() + i * element);
  }
  return bytes;
}

void fill(const Block& block, DType dtype) {
  const std::vector<std::byte> period = encoded_period(block, dtype);
  const int64_t element = size_bytes(dtype);
  for (int64_t at = 0; at < block.count; at += kPeriod) {
    const int64_t count = std::min(kPeriod, block.count - at);
    std::memcpy(block.begin + at * element, period.data(), static_cast<size_t>(count * element));
  }
}

int64_t count_differences(const Block& block, DType dtype) {
  const std::vector<std::byte> period = encoded_period(block, dtype);
  const int64_t element = size_bytes(dtype);
  int64_t wrong = 0;
  for (int64_t at = 0; at < block.count; at += kPeriod) {
    const int64_t count = std::min(kPeriod, block.count - at);
    const std::byte* actual = block.begin + at * element;
    if (std::memcmp(actual, period.data(), static_cast<size_t>(count * element)) == 0) continue;
    for (int64_t i = 0; i < count; ++i) {
      const bool same = std::memcmp(actual + i * element, period.data() + i * element,
                                    static_cast<size_t>(element)) == 0;
      if (!same) ++wrong;
    }
  }
  return wrong;
}

std::vector<Block> input_blocks(const BenchCase& bench, int rank, const CollectiveCall& call,
                                const Pattern& pattern) {
  const int n = bench.ranks;
  const int64_t count = bench.count;
  auto* in = static_cast<std::byte*>(const_cast<void*>(call.in));
  const auto one_for_each_rank = [&] {
    std::vector<Block> blocks;
    for (int to = 0; to < n; ++to) {
      std::byte* begin = in + to * count * size_bytes(bench.dtype);
      blocks.push_back({begin, count, 0, pattern.contribution(rank, to)});
    }
    return blocks;
  };
  const bool root = rank == kBenchRoot;
  switch (bench.op) {
    case CollectiveOp::kBroadcast:
      if (!root) return {};
      return {{static_cast<std::byte*>(call.out), count, 0, pattern.contribution(rank, 0)}};
    case CollectiveOp::kScatter:
      return root ? one_for_each_rank() : std::vector<Block>();
    case CollectiveOp::kAllToAll:
      return one_for_each_rank();
    case CollectiveOp::kReduceScatter:
      return {{in, n * count, 0, pattern.contribution(rank, 0)}};
    default:
      return {{in, count, 0, pattern.contribution(rank, 0)}};
  }
}

std::vector<Block> result_blocks(const BenchCase& bench, int rank, const CollectiveCall& call,
                                 const Pattern& pattern) {
  const int64_t count = bench.count;
  auto* out = static_cast<std::byte*>(call.out);
  const auto one_from_each_rank = [&](int to) {
    std::vector<Block> blocks;
    for (int from = 0; from < bench.ranks; ++from) {
      std::byte* begin = out + from * count * size_bytes(bench.dtype);
      blocks.push_back({begin, count, 0, pattern.contribution(from, to)});
    }
    return blocks;
  };
  const bool root = rank == kBenchRoot;
  switch (bench.op) {
    case CollectiveOp::kBroadcast:
      return {{out, count, 0, pattern.contribution(kBenchRoot, 0)}};
    case CollectiveOp::kScatter:
      return {{out, count, 0, pattern.contribution(kBenchRoot, rank)}};
    case CollectiveOp::kGather:
      return root ? one_from_each_rank(0) : std::vector<Block>();
    case CollectiveOp::kAllGather:
      return one_from_each_rank(0);
    case CollectiveOp::kAllToAll:
      return one_from_each_rank(rank);
    case CollectiveOp::kReduceScatter:
      return {{out, count, rank * count, pattern.reduction()}};
    case CollectiveOp::kReduce:
      if (!root) return {};
      return {{out, count, 0, pattern.reduction()}};
    default:
      return {{out, count, 0, pattern.reduction()}};
  }
}

}  // namespace

void fill_arrays(const BenchCase& bench, int rank, const BenchArrays& arrays, uint64_t seed) {
  const auto size = static_cast<size_t>(bench.array_bytes());
  std::memset(arrays.in, kStale, size);
  std::memset(arrays.out, kStale, size);
  const CollectiveCall call = call_of(bench, rank, arrays);
  for (const Block& block : input_blocks(bench, rank, call, Pattern(bench, seed))) {
    fill(block, bench.dtype);
  }
}

int64_t count_wrong(const BenchCase& bench, int rank, const BenchArrays& arrays, uint64_t seed) {
  const CollectiveCall call = call_of(bench, rank, arrays);
  int64_t wrong = 0;
  for (const Block& block : result_blocks(bench, rank, call, Pattern(bench, seed))) {
    wrong += count_differences(block, bench.dtype);
  }
  return wrong;
}

}  // namespace tessera
