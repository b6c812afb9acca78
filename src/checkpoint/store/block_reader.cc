#include "checkpoint/store/block_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "checkpoint/store/store_error.h"

namespace tessera {

BlockReader::BlockReader(const FileOps& files, const StorePath& path, FileSums sums)
    : path_(files.path_text(path)), sums_(std::move(sums)), file_(files.open(path)) {
  if (file_->size() != sums_.bytes) {
    fail_corrupt(path_,
                 fmt::format("it has {} bytes, but should have {}", file_->size(), sums_.bytes));
  }
}

void BlockReader::load(int64_t first, int64_t count, std::byte* to) {
  const int64_t begin = first * kStoreBlockBytes;
  const int64_t end = std::min(sums_.bytes, begin + count * kStoreBlockBytes);
  const std::span<std::byte> bytes(to, static_cast<size_t>(end - begin));
  file_->read_at(begin, bytes);
  bytes_read_ += end - begin;
  if (sums_.missing) return;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i * kStoreBlockBytes);
    const auto block =
        bytes.subspan(at, std::min(static_cast<size_t>(kStoreBlockBytes), bytes.size() - at));
    const uint32_t actual = crc32c(block);
    const uint32_t stored = sums_.blocks[static_cast<size_t>(first + i)];
    if (actual != stored) {
      fail_corrupt(path_,
                   fmt::format("block {} (bytes {} to {}) has the sum {:08x}, but {:08x} "
                               "was written",
                               first + i, begin + i * kStoreBlockBytes,
                               begin + i * kStoreBlockBytes + std::ssize(block), actual, stored));
    }
  }
}

std::span<const std::byte> BlockReader::read(int64_t begin, int64_t end) {
  TESSERA_CHECK(begin >= 0 && begin < end && end <= sums_.bytes, "bytes {} to {} of {}", begin, end,
                sums_.bytes);
  const int64_t first = begin / kStoreBlockBytes;
  const int64_t count = blocks_of(end) - first;
  TESSERA_CHECK(count <= kMostBlocks, "{} blocks at a time", count);
  const auto need = static_cast<size_t>(count * kStoreBlockBytes);
  if (buffer_.size() < need) buffer_.resize(need);
  // What is there already goes to the front.
  int64_t kept = 0;
  if (first >= first_ && first < first_ + count_) {
    kept = std::min(first_ + count_ - first, count);
    if (first > first_) {
      std::memmove(buffer_.data(), buffer_.data() + (first - first_) * kStoreBlockBytes,
                   static_cast<size_t>(kept * kStoreBlockBytes));
    }
  }
  count_ = 0;  // should loading throw
  if (kept < count) load(first + kept, count - kept, buffer_.data() + kept * kStoreBlockBytes);
  first_ = first;
  count_ = count;
  return std::span<const std::byte>(buffer_).subspan(
      static_cast<size_t>(begin - first * kStoreBlockBytes), static_cast<size_t>(end - begin));
}

}  // namespace tessera
