#include "data/set/block_sums.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tessera {

BlockSums::BlockSums(int64_t bytes, std::vector<uint32_t> sums)
    : bytes_(bytes), sums_(std::move(sums)) {
  TESSERA_CHECK(std::ssize(sums_) == (bytes + kSumBlockBytes - 1) / kSumBlockBytes,
                "{} sums of {} bytes", sums_.size(), bytes);
}

void BlockSums::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const int64_t in_block = bytes_ % kSumBlockBytes;
    if (in_block == 0) sums_.push_back(0);
    const auto count =
        static_cast<size_t>(std::min<int64_t>(std::ssize(bytes), kSumBlockBytes - in_block));
    sums_.back() = crc32_of(bytes.first(count), sums_.back());
    bytes_ += static_cast<int64_t>(count);
    bytes = bytes.subspan(count);
  }
}

void BlockSums::add(std::span<const std::byte> bytes, uint32_t sum) {
  const int64_t in_block = bytes_ % kSumBlockBytes;
  if (in_block == 0 || bytes.empty() || in_block + std::ssize(bytes) > kSumBlockBytes) {
    return add(bytes);
  }
  sums_.back() = static_cast<uint32_t>(crc32_combine(sums_.back(), sum, std::ssize(bytes)));
  bytes_ += std::ssize(bytes);
}

uint32_t crc32_of(std::span<const std::byte> bytes, uint32_t before) {
  uLong sum = before;
  sum = crc32_z(sum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  return static_cast<uint32_t>(sum);
}

}  // namespace tessera
