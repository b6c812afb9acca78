#include "launch/rendezvous/token.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"

namespace tessera {

std::string random_token() {
  std::array<uint64_t, 2> words{};
  const ssize_t got = ::getrandom(words.data(), sizeof(words), 0);
  require(got == static_cast<ssize_t>(sizeof(words)), "the system gives no random bytes: {}",
          std::strerror(errno));
  return hex(words[0]) + hex(words[1]);
}

}  // namespace tessera
