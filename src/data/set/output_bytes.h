// A file that grows at its end, through a buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tessera {

// Move-only. Every failure throws Error with the file and the reason.
class OutputBytes {
 public:
  static OutputBytes create(const std::filesystem::path& path);
  // Goes on after the first `size` bytes of a file; what follows them is dropped. Throws
  // ConfigError where there are fewer.
  static OutputBytes continue_after(const std::filesystem::path& path, int64_t size);

  ~OutputBytes();
  OutputBytes(OutputBytes&& other) noexcept;
  OutputBytes& operator=(OutputBytes&&) = delete;
  OutputBytes(const OutputBytes&) = delete;
  OutputBytes& operator=(const OutputBytes&) = delete;

  void append(std::span<const std::byte> bytes);
  // What was appended is on the disk once it returns.
  void flush();
  // The same, and the file is closed.
  void finish();

 private:
  OutputBytes(std::string path, int file) : path_(std::move(path)), file_(file) {}
  void write_buffer();
  void write(std::span<const std::byte> left);

  std::string path_;
  int file_ = -1;
  std::vector<std::byte> buffer_;
};

// Puts `text` in the place of a file at once: readers see the old one or the new one.
void replace_file(const std::filesystem::path& path, const std::string& text);

}  // namespace tessera
