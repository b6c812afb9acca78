// A file opened for reading at given offsets. Never mapped: a mapped file that somebody truncates
// kills the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace tessera {

// Move-only owner of the descriptor. Reading is thread-safe.
class InputFile {
 public:
  // Regular files only (links are followed). Throws Error if it is missing, special or unreadable.
  static InputFile open(const std::string& path);

  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int64_t size() const { return size_; }  // when it was opened

  // Fills `out`; throws Error on an I/O error or if the file has become shorter.
  void read_at(int64_t offset, std::span<std::byte> out) const;
  [[nodiscard]] std::string read_text(int64_t offset, int64_t count) const;

 private:
  InputFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace tessera
