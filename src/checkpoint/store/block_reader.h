// Checked bytes of one shard: whole blocks are read, compared with their sums, and kept while what
// is asked for moves forward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/store/block_sums.h"
#include "checkpoint/store/file_ops.h"

namespace tessera {

class BlockReader {
 public:
  // Most blocks at a time: what it takes of memory.
  static constexpr int64_t kMostBlocks = 8;

  // Throws Error with ExitCode::kCorrupt where the file has another size than its sums.
  BlockReader(const FileOps& files, const StorePath& path, FileSums sums);

  // Bytes [begin, end) of the file, at most kMostBlocks - 1 blocks of them; valid until the next
  // call. Blocks that the last call had too are not read again. Throws Error with
  // ExitCode::kCorrupt and the file, the block and both sums where a block is not what was written;
  // sums that are missing are compared with nothing.
  std::span<const std::byte> read(int64_t begin, int64_t end);

  [[nodiscard]] int64_t bytes_read() const { return bytes_read_; }

 private:
  void load(int64_t first, int64_t count, std::byte* to);

  std::string path_;
  FileSums sums_;
  std::unique_ptr<OldFile> file_;
  std::vector<std::byte> buffer_;
  int64_t first_ = 0, count_ = 0;  // blocks in the buffer
  int64_t bytes_read_ = 0;
};

}  // namespace tessera
