#include "data/set/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

struct OpenFile {
  int number = -1;
  ~OpenFile() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path) {
  const OpenFile file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  require_config(file.number >= 0, "cannot open '{}': {}", path.string(), std::strerror(errno));
  struct stat facts = {};
  require(::fstat(file.number, &facts) == 0, "cannot read '{}': {}", path.string(),
          std::strerror(errno));
  require_config(S_ISREG(facts.st_mode), "'{}' is no regular file", path.string());
  const auto size = static_cast<size_t>(facts.st_size);
  if (size == 0) return {path.string(), nullptr, 0};
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number, 0);
  require(data != MAP_FAILED, "cannot map '{}' ({} bytes): {}", path.string(), size,
          std::strerror(errno));
  return {path.string(), static_cast<const std::byte*>(data), size};
}

MappedFile::~MappedFile() {
  // The mapping is ours alone, and was made without the right to write.
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace tessera
