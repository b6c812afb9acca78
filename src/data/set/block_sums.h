// Checksums of a file in blocks, so that damage is found with its place: CRC-32 as zlib and gzip
// have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

inline constexpr int64_t kSumBlockBytes = int64_t{1} << 24;

// Sums of bytes that come one after another. The last block may be shorter.
class BlockSums {
 public:
  BlockSums() = default;
  // Goes on where another left off.
  BlockSums(int64_t bytes, std::vector<uint32_t> sums);

  void add(std::span<const std::byte> bytes);
  // The same where crc32_of(bytes) is known: they are looked at only where a block ends in them.
  void add(std::span<const std::byte> bytes, uint32_t sum);
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] const std::vector<uint32_t>& sums() const { return sums_; }

 private:
  int64_t bytes_ = 0;
  std::vector<uint32_t> sums_;  // of the block at hand too
};

uint32_t crc32_of(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace tessera
