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

bool same_token(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |=
        static_cast<unsigned char>(a[i]) ^ static_cast<unsigned>(static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

}  // namespace tessera
