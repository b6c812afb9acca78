#include "launch/first_voice.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string>

#include "base/hash.h"

namespace tessera {
namespace {

uint64_t name_of_word(const LaunchContext& context, std::string_view text) {
  Hasher hasher;
  hasher.add(static_cast<int>(context.launcher));
  hasher.add(context.size);
  hasher.add(context.token);
  hasher.add(context.master_address);
  hasher.add(context.master_port);
  hasher.add(context.rendezvous_file);
  hasher.add(::geteuid());
  if (context.by_mpi()) {
    hasher.add(::getppid());  // what starts the ranks of a host collects their output too
  } else {
    struct stat output {};
    if (::fstat(STDERR_FILENO, &output) != 0) return 0;
    hasher.add(output.st_dev);
    hasher.add(output.st_ino);
  }
  hasher.add(text);
  return hasher.value();
}

}  // namespace

FirstVoice::FirstVoice(const LaunchContext& context, std::string_view text)
    : word_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  // A name without a place in the file system: it is free again when the process ends, however.
  const std::string name = "tessera-says-" + hex(name_of_word(context, text));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (!word_.valid()) return;
  speaks_ = ::bind(word_.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0 ||
            errno != EADDRINUSE;
}

}  // namespace tessera
