#include "runtime/device/fail_rank.h"

namespace tessera {

void fail_rank(CommWorld& world, int rank, const std::string& what) {
  const std::string message = fmt::format("rank {}: {}", rank, what);
  world.abort(message);
  throw CommError(message);
}

}  // namespace tessera
