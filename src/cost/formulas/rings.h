// Collectives over a ring and over trees: bytes and times with a latency for each message and one
// bandwidth, nothing shared. collective/cost.h has the bytes of the algorithms that we run;
// the tests compare.
#pragma once

#include <cstdint>

namespace tessera {

struct LinkRate {
  double bytes_per_s = 1;
  double latency_s = 0;  // of one message
};

// Sent by each of `ranks`, and as much received. `bytes`: the whole array.
double ring_all_reduce_bytes(double bytes, double ranks);   // 2 (N-1)/N X
double ring_all_gather_bytes(double bytes, double ranks);   // (N-1)/N X; reduce-scatter the same
double naive_all_reduce_bytes(double bytes, double ranks);  // through the one that adds: 2 (N-1) X

double ring_all_reduce_s(double bytes, double ranks, const LinkRate& link);
double ring_all_gather_s(double bytes, double ranks, const LinkRate& link);
// Up a tree and down again, in pieces that follow each other.
double tree_all_reduce_s(double bytes, double ranks, const LinkRate& link);

// Rounds of a binary tree: log2(ranks), rounded up.
int64_t tree_rounds(int64_t ranks);

// Below so many bytes the tree is faster than the ring; 0: never, or without latency.
double tree_wins_below(double ranks, const LinkRate& link);

}  // namespace tessera
