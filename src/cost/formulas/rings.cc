#include "cost/formulas/rings.h"

namespace tessera {

double ring_all_reduce_bytes(double bytes, double ranks) { return 2 * (ranks - 1) * bytes / ranks; }

double ring_all_gather_bytes(double bytes, double ranks) { return (ranks - 1) * bytes / ranks; }

double naive_all_reduce_bytes(double bytes, double ranks) { return 2 * (ranks - 1) * bytes; }

double ring_all_reduce_s(double bytes, double ranks, const LinkRate& link) {
  return 2 * (ranks - 1) * link.latency_s + ring_all_reduce_bytes(bytes, ranks) / link.bytes_per_s;
}

double ring_all_gather_s(double bytes, double ranks, const LinkRate& link) {
  return (ranks - 1) * link.latency_s + ring_all_gather_bytes(bytes, ranks) / link.bytes_per_s;
}

double tree_all_reduce_s(double bytes, double ranks, const LinkRate& link) {
  if (ranks <= 1) return 0;
  const auto rounds = static_cast<double>(tree_rounds(static_cast<int64_t>(ranks)));
  return 2 * rounds * link.latency_s + 2 * bytes / link.bytes_per_s;
}

int64_t tree_rounds(int64_t ranks) {
  int64_t rounds = 0;
  for (int64_t reached = 1; reached < ranks; reached *= 2) ++rounds;
  return rounds;
}

// 2 (N-1) a + 2 (N-1)/N X/B = 2 r a + 2 X/B, solved for X.
double tree_wins_below(double ranks, const LinkRate& link) {
  const auto rounds = static_cast<double>(tree_rounds(static_cast<int64_t>(ranks)));
  return (ranks - 1 - rounds) * link.latency_s * ranks * link.bytes_per_s;
}

}  // namespace tessera
