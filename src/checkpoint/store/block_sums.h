// Sums of a file in blocks, so that what is read can be checked without reading the rest; kept in a
// file beside it. Little-endian:
//   8 bytes   "TSCRC-1\n"
//   u64       bytes of the file
//   u64       bytes of a block (2^20)
//   32 bytes  SHA-256 of the safetensors header with its length
//   u32 ...   CRC-32C of each block; the last may be shorter
//   u32       CRC-32C of all of this
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

inline constexpr int64_t kStoreBlockBytes = int64_t{1} << 20;

constexpr int64_t blocks_of(int64_t bytes) {
  return bytes / kStoreBlockBytes + (bytes % kStoreBlockBytes != 0 ? 1 : 0);
}

struct FileSums {
  int64_t bytes = 0;
  std::array<uint8_t, 32> header_hash{};
  std::vector<uint32_t> blocks;
  // The file with the sums is missing, and what it would be compared with is taken as it is.
  bool missing = false;
  friend bool operator==(const FileSums&, const FileSums&) = default;
};

std::string text_of_sums(const FileSums& sums);
// Throws Error with ExitCode::kCorrupt, or kVersion for the file of a newer format.
FileSums parse_sums(std::string_view bytes, const std::string& path);
int64_t bytes_of_sums(int64_t file_bytes);  // of the file beside it

// Sums of bytes that come one after another, while they are copied.
class RunningSums {
 public:
  void copy(std::byte* to, std::span<const std::byte> from);
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] const std::vector<uint32_t>& blocks() const { return blocks_; }

 private:
  int64_t bytes_ = 0;
  std::vector<uint32_t> blocks_;  // of the one at hand too
};

}  // namespace tessera
