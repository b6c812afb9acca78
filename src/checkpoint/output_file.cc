#include "checkpoint/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

constexpr std::string_view kTemporaryEnd = ".tmp";
constexpr size_t kSuffixSize = 1 + 16 + kTemporaryEnd.size();

std::string random_suffix() {
  std::random_device device;
  const uint64_t high = device();
  return fmt::format(".{:016x}{}", high << 32 | device(), kTemporaryEnd);
}

[[noreturn]] void fail(const std::string& path, int error) {
  throw Error(
      fmt::format("cannot write '{}': {}; check the folder, its permissions and the space "
                  "left on the disk",
                  path, std::strerror(error)));
}

// The rename itself must survive a power cut, so the folder is synced too.
void sync_folder_of(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail(path, errno);
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  // Some file systems cannot sync a folder and say EINVAL.
  if (result != 0 && error != EINVAL) fail(path, error);
}

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path) {
  // A name that exists is somebody else's, however unlikely that is.
  do {
    temporary_ = path + random_suffix();
    descriptor_ =
        ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail(path_, errno);
}

bool OutputFile::is_leftover(const std::string& name, const std::string& path) {
  return name.size() == path.size() + kSuffixSize && name.starts_with(path) &&
         name.ends_with(kTemporaryEnd) && name[path.size()] == '.' &&
         name.find_first_not_of("0123456789abcdef", path.size() + 1) ==
             name.size() - kTemporaryEnd.size();
}

OutputFile::~OutputFile() {
  close();
  if (!committed_) ::unlink(temporary_.c_str());
}

void OutputFile::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail(path_, put == 0 ? EIO : errno);
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

void OutputFile::commit() {
  if (::fsync(descriptor_) != 0) fail(path_, errno);
  rename_into_place();
  sync_folder_of(path_);
}

void OutputFile::commit_unsynced() { rename_into_place(); }

// Some file systems say only on closing that a write did not succeed.
void OutputFile::rename_into_place() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) fail(path_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, errno);
  committed_ = true;
}

}  // namespace tessera
