// A file in memory, read-only, page by page as it is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace tessera {

// Move-only. Any thread may read. A file that shrinks afterwards ends the process where its lost
// end is touched.
class MappedFile {
 public:
  // Throws ConfigError where there is no such regular file, Error where it cannot be read.
  static MappedFile open(const std::filesystem::path& path);

  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(size_); }

 private:
  MappedFile(std::string path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  const std::byte* data_ = nullptr;  // null: the file is empty
  size_t size_ = 0;
};

}  // namespace tessera
