#include "data/set/output_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr size_t kDirectBytes = size_t{64} << 10;  // copying them into the buffer saves nothing
constexpr mode_t kRights = 0666;                   // less the umask

}  // namespace

OutputBytes OutputBytes::create(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kRights);
  require(file >= 0, "cannot create '{}': {}", path.string(), std::strerror(errno));
  return {path.string(), file};
}

OutputBytes OutputBytes::continue_after(const std::filesystem::path& path, int64_t size) {
  const int number = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  require_config(number >= 0, "cannot go on: cannot open '{}' ({}); start over with --overwrite",
                 path.string(), std::strerror(errno));
  OutputBytes file{path.string(), number};
  struct stat facts = {};
  require(::fstat(number, &facts) == 0, "cannot read '{}': {}", path.string(),
          std::strerror(errno));
  require_config(facts.st_size >= size,
                 "cannot go on: '{}' has {} bytes, but {} were written; start over with "
                 "--overwrite",
                 path.string(), facts.st_size, size);
  require(::ftruncate(number, size) == 0 && ::lseek(number, size, SEEK_SET) == size,
          "cannot write '{}': {}", path.string(), std::strerror(errno));
  return file;
}

OutputBytes::~OutputBytes() {
  if (file_ >= 0) ::close(file_);
}

OutputBytes::OutputBytes(OutputBytes&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      buffer_(std::move(other.buffer_)) {}

void OutputBytes::append(std::span<const std::byte> bytes) {
  if (bytes.size() >= kDirectBytes) {
    write_buffer();
    return write(bytes);
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= kBufferBytes) write_buffer();
}

void OutputBytes::write_buffer() {
  write(buffer_);
  buffer_.clear();
}

void OutputBytes::write(std::span<const std::byte> left) {
  while (!left.empty()) {
    const ssize_t written = ::write(file_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    require(written > 0, "cannot write '{}': {}", path_, std::strerror(errno));
    left = left.subspan(static_cast<size_t>(written));
  }
}

void OutputBytes::flush() {
  write_buffer();
  require(::fdatasync(file_) == 0, "cannot write '{}': {}", path_, std::strerror(errno));
}

void OutputBytes::finish() {
  flush();
  require(::close(std::exchange(file_, -1)) == 0, "cannot write '{}': {}", path_,
          std::strerror(errno));
}

void replace_file(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path next = path.string() + ".next";
  OutputBytes file = OutputBytes::create(next);
  file.append(std::as_bytes(std::span(text)));
  file.finish();
  std::error_code error;
  std::filesystem::rename(next, path, error);
  require(!error, "cannot write '{}': {}", path.string(), error.message());
}

}  // namespace tessera
