#include "launch/rendezvous/private_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "launch/unique_fd.h"

namespace tessera {

std::string private_folder(const std::string& root) {
  std::string path = fmt::format("{}/tessera-{}", root, ::geteuid());
  const bool there = ::mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST;
  const UniqueFd folder(
      there ? ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1);
  const std::string why = folder.valid() ? "" : std::strerror(errno);
  constexpr const char* kFix =
      "give all ranks the same secret instead: export TESSERA_RUN_TOKEN=$(openssl rand -hex 16)";
  require_config(folder.valid(), "cannot use the folder '{}': {}; {}", path, why, kFix);
  struct stat status {};
  require_config(::fstat(folder.get(), &status) == 0 && status.st_uid == ::geteuid() &&
                     (status.st_mode & (S_IRWXG | S_IRWXO)) == 0,
                 "the folder '{}' is not this user's alone: {}", path, kFix);
  return path;
}

}  // namespace tessera
