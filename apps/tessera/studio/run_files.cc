#include "studio/run_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/error.h"

namespace tessera {

RunFile::RunFile(const std::string& folder, const std::string& name) {
  const UniqueFd at(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at.valid()) return;
  // Not blocking: a named pipe opens only when somebody writes to it.
  file_ =
      UniqueFd(::openat(at.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!file_.valid() || ::fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    file_.reset();
    return;
  }
  state_ = {status.st_dev, status.st_ino, status.st_size,
            static_cast<double>(status.st_mtim.tv_sec) +
                1e-9 * static_cast<double>(status.st_mtim.tv_nsec)};
}

std::string RunFile::read(int64_t offset, int64_t most) const {
  std::string bytes(static_cast<size_t>(most), '\0');
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t now = ::pread(file_.get(), bytes.data() + got, bytes.size() - got,
                                offset + static_cast<int64_t>(got));
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) break;
    got += static_cast<size_t>(now);
  }
  bytes.resize(got);
  return bytes;
}

std::optional<std::string> read_run_file(const std::string& folder, const std::string& name,
                                         int64_t most) {
  const RunFile file(folder, name);
  if (!file.valid()) return std::nullopt;
  require(file.state().size <= most, "'{}/{}' has {} bytes: more than {} are not shown", folder,
          name, file.state().size, most);
  return file.read(0, file.state().size);
}

bool holds_run(const std::string& folder) {
  for (const char* name : {"metrics.jsonl", "plan.json", "resolved.json"}) {
    if (RunFile(folder, name).valid()) return true;
  }
  return false;
}

}  // namespace tessera
