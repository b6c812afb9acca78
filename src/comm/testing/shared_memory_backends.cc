#include "comm/testing/shared_memory_backends.h"

#include <vector>

#include "collective/schedule.h"

namespace tessera::testing {
namespace {

// One-shot contributions lie in mailboxes of this size.
constexpr int64_t kMailBytes = 16384;

bool offers(const SuiteCase& c, int size) {
  if (!supports(c.op, c.algorithm)) return false;
  return c.algorithm != Algorithm::kOneShot || size * c.count * size_bytes(c.dtype) <= kMailBytes;
}

// Auto, one-shot and direct move between buffers; the others run the schedules of messages, with
// each half of the ranks for a node.
int64_t bytes_sent_by(const SuiteCase& c, int rank, int size) {
  if (c.algorithm == Algorithm::kAuto || c.algorithm == Algorithm::kOneShot ||
      c.algorithm == Algorithm::kDirect) {
    return expected_bytes(c, rank, size);
  }
  std::vector<int> nodes;
  for (int r = 0; r < size; ++r) nodes.push_back(2 * r / size);
  return scheduled_bytes(c, rank, size, nodes);
}

}  // namespace

SuiteTraits shared_memory_traits() { return {.offers = offers, .bytes_sent = bytes_sent_by}; }

}  // namespace tessera::testing
