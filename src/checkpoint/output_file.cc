#include "checkpoint/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace tessera {
namespace {

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

OutputFile::OutputFile(const std::string& path) : path_(path), temporary_(path + ".tmp") {
  // A leftover of a crash goes; O_EXCL then never writes through a link that somebody put there.
  ::unlink(temporary_.c_str());
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor_ < 0) fail(temporary_, errno);
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
    if (put <= 0) fail(temporary_, put == 0 ? EIO : errno);
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

void OutputFile::commit() {
  if (::fsync(descriptor_) != 0) fail(temporary_, errno);
  close();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, errno);
  committed_ = true;
  sync_folder_of(path_);
}

}  // namespace tessera
