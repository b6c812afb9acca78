#include "checkpoint/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tessera {

InputFile InputFile::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe must not wait for its writer; regular files do not notice.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  require(descriptor >= 0, "cannot open '{}': {}; check the path and its permissions", path,
          std::strerror(errno));
  InputFile file(path, descriptor);
  struct stat status {};
  require(::fstat(descriptor, &status) == 0, "cannot read the size of '{}': {}", path,
          std::strerror(errno));
  require(S_ISREG(status.st_mode), "'{}' is not a regular file: name the file itself", path);
  file.size_ = status.st_size;
  return file;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

void InputFile::read_at(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    require(got >= 0, "cannot read '{}' at byte {}: {}", path_, offset, std::strerror(errno));
    require(got > 0,
            "'{}' ends at byte {} but had {} bytes when it was opened: it was cut while "
            "it was read",
            path_, offset, size_);
    out = out.subspan(static_cast<size_t>(got));
    offset += got;
  }
}

std::string InputFile::read_text(int64_t offset, int64_t count) const {
  std::string text(static_cast<size_t>(count), '\0');
  read_at(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace tessera
