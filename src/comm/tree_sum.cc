#include "comm/tree_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "comm/reduce.h"

namespace tessera {
namespace {

constexpr int64_t kBlockBytes = 2048;
constexpr size_t kMostLevels = 24;

// The elements [at, at + count) of all sources, a block.
class Block {
 public:
  Block(DType dtype, std::span<const void* const> sources, int64_t at, int64_t count)
      : dtype_(dtype), sources_(sources), offset_(at * size_bytes(dtype)), count_(count) {
    shares_ = std::bit_ceil(sources.size());
    twice_ = shares_ - sources.size();
  }

  [[nodiscard]] const void* sum() { return sources_.size() == 1 ? source(0) : sum(0, shares_, 0); }

  void copy_to(std::span<void* const> targets, const void* result) const {
    for (void* const target : targets) {
      void* const to = static_cast<std::byte*>(target) + offset_;
      if (to != result) std::memcpy(to, result, bytes());
    }
  }
  [[nodiscard]] size_t bytes() const { return static_cast<size_t>(count_ * size_bytes(dtype_)); }

 private:
  // Sums `count` shares from `first` on: in place where one source owns them all, else in partial
  // sum `level`.
  const void* sum(size_t first, size_t count, size_t level) {
    const bool one_owner = count == 1 || (count == 2 && first < 2 * twice_);
    if (one_owner) return source(first < 2 * twice_ ? first / 2 : first - twice_);
    const std::array<const void*, 2> halves = {sum(first, count / 2, level),
                                               sum(first + count / 2, count / 2, level + 1)};
    void* const to = partial_.at(level).data();
    reduce_in_order(ReduceKernel::kInterleaved, ReduceOp::kSum, dtype_, halves,
                    std::span<void* const>(&to, 1), count_);
    return to;
  }

  [[nodiscard]] const void* source(size_t index) const {
    return static_cast<const std::byte*>(sources_[index]) + offset_;
  }

  DType dtype_;
  std::span<const void* const> sources_;
  int64_t offset_;
  int64_t count_;
  size_t shares_ = 1, twice_ = 0;
  alignas(64) std::array<std::array<std::byte, kBlockBytes>, kMostLevels> partial_;
};

}  // namespace

void sum_along_tree(DType dtype, std::span<const void* const> sources,
                    std::span<void* const> targets, int64_t count) {
  TESSERA_CHECK(sources.size() > 1, "a tree of {} ranks", sources.size());
  const int64_t block = kBlockBytes / size_bytes(dtype);
  for (int64_t at = 0; at < count; at += block) {
    Block sums(dtype, sources, at, std::min(block, count - at));
    sums.copy_to(targets, sums.sum());
  }
}

void sum_twins(DType dtype, std::span<const void* const> sources, std::span<void* const> targets,
               int64_t count) {
  TESSERA_CHECK(sources.size() % 2 == 0, "twins of {} ranks", sources.size());
  const size_t half = sources.size() / 2;
  const int64_t block = kBlockBytes / size_bytes(dtype);
  for (int64_t at = 0; at < count; at += block) {
    Block first(dtype, sources.first(half), at, std::min(block, count - at));
    Block second(dtype, sources.subspan(half), at, std::min(block, count - at));
    const void* const result = first.sum();
    require(std::memcmp(result, second.sum(), first.bytes()) == 0,
            "ranks 0 to {} of the group and ranks {} to {} have computed the same, and their "
            "sums differ: an error of the memory or the processor of one of them",
            half - 1, half, sources.size() - 1);
    first.copy_to(targets, result);
  }
}

}  // namespace tessera
