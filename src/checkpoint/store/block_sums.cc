#include "checkpoint/store/block_sums.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/text/text.h"
#include "checkpoint/store/store_error.h"

namespace tessera {
namespace {

constexpr std::string_view kMagic = "TSCRC-1\n";
constexpr std::string_view kMagicOfAny = "TSCRC-";
constexpr size_t kHeadBytes = 8 + 8 + 8 + 32;
constexpr size_t kSumBytes = sizeof(uint32_t);

void put(std::string& to, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i) & 0xFF);
}

uint64_t number_at(std::string_view from, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<uint8_t>(from[at + i]);
  return value;
}

}  // namespace

int64_t bytes_of_sums(int64_t file_bytes) {
  return static_cast<int64_t>(kHeadBytes) +
         static_cast<int64_t>(kSumBytes) * (blocks_of(file_bytes) + 1);
}

std::string text_of_sums(const FileSums& sums) {
  std::string text(kMagic);
  put(text, static_cast<uint64_t>(sums.bytes), 8);
  put(text, static_cast<uint64_t>(kStoreBlockBytes), 8);
  for (const uint8_t byte : sums.header_hash) text += static_cast<char>(byte);
  for (const uint32_t sum : sums.blocks) put(text, sum, kSumBytes);
  put(text, crc32c(text), kSumBytes);
  return text;
}

FileSums parse_sums(std::string_view bytes, const std::string& path) {
  if (bytes.size() < kHeadBytes + kSumBytes) {
    fail_corrupt(
        path, fmt::format("it has {} bytes, fewer than {}", bytes.size(), kHeadBytes + kSumBytes));
  }
  const size_t body = bytes.size() - kSumBytes;
  const auto stored = static_cast<uint32_t>(number_at(bytes, body, kSumBytes));
  const uint32_t actual = crc32c(bytes.substr(0, body));
  if (stored != actual) {
    fail_corrupt(path,
                 fmt::format("its own sum is {:08x}, but its bytes have {:08x}", stored, actual));
  }
  if (!bytes.starts_with(kMagic)) {
    const std::string shown = in_quotes(bytes.substr(0, kMagic.size()));
    if (!bytes.starts_with(kMagicOfAny))
      fail_corrupt(path, fmt::format("it begins with {}", shown));
    throw Error(fmt::format("'{}' begins with {}, but this Tessera reads \"TSCRC-1\": use the "
                            "Tessera that wrote it",
                            path, shown),
                ExitCode::kVersion);
  }
  FileSums sums;
  const uint64_t size = number_at(bytes, 8, 8);
  const uint64_t block = number_at(bytes, 16, 8);
  if (block != static_cast<uint64_t>(kStoreBlockBytes)) {
    fail_corrupt(path, fmt::format("its blocks have {} bytes, not {}", block, kStoreBlockBytes));
  }
  const size_t count = (body - kHeadBytes) / kSumBytes;
  // The blocks that are there say how large the file can be: nothing is computed from `size`
  // before.
  const bool fits = size <= static_cast<uint64_t>(count) * block &&
                    static_cast<size_t>(blocks_of(static_cast<int64_t>(size))) == count;
  if ((body - kHeadBytes) % kSumBytes != 0 || !fits) {
    fail_corrupt(path, fmt::format("it has {} sums for a file of {} bytes", count, size));
  }
  sums.bytes = static_cast<int64_t>(size);
  std::memcpy(sums.header_hash.data(), bytes.data() + 24, sums.header_hash.size());
  for (size_t i = 0; i < count; ++i) {
    sums.blocks.push_back(
        static_cast<uint32_t>(number_at(bytes, kHeadBytes + i * kSumBytes, kSumBytes)));
  }
  return sums;
}

void RunningSums::copy(std::byte* to, std::span<const std::byte> from) {
  while (!from.empty()) {
    const int64_t in_block = bytes_ % kStoreBlockBytes;
    if (in_block == 0) blocks_.push_back(0);
    const auto count =
        static_cast<size_t>(std::min<int64_t>(std::ssize(from), kStoreBlockBytes - in_block));
    blocks_.back() = copy_with_crc32c(to, from.first(count), blocks_.back());
    bytes_ += static_cast<int64_t>(count);
    to += count;
    from = from.subspan(count);
  }
}

}  // namespace tessera
