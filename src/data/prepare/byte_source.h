// The bytes of a file from its beginning, unpacked where it is packed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace tessera {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills `out`, less only at the end of the file. Throws ConfigError with the file and the byte
  // where it is damaged or cut off, Error where it cannot be read.
  virtual size_t read(std::span<char> out) = 0;
  // Bytes of the file as it lies on the disk, for progress.
  [[nodiscard]] virtual int64_t bytes_read() const = 0;
};

// Packed files are known by their first bytes: gzip and zstd, several of them one after another
// too.
std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path);

}  // namespace tessera
