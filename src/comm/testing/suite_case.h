// One collective of the suite as data: what every rank passes in, what must come out, and how many
// bytes must be counted. Nothing here touches a communicator.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collective/algorithm.h"
#include "collective/op.h"
#include "comm/testing/pattern.h"

namespace tessera::testing {

// Where buffers lie: in memory of CommWorld::allocate, or anywhere.
enum class BufferPlace : uint8_t { kHeap, kForeign, kMixedByRank, kMixedByBuffer };
constexpr int kNumBufferPlaces = 4;

// kSend stands for an exchange in which every rank sends to rank + root and receives from
// rank - root (so root is 1 to n - 1 there); kReceive does not occur.
struct SuiteCase {
  CollectiveOp op = CollectiveOp::kBarrier;
  ReduceOp reduce = ReduceOp::kSum;
  DType dtype = DType::kF32;
  Algorithm algorithm = Algorithm::kAuto;
  int64_t count = 0;  // all_to_all_v: each pair exchanges at most this many elements
  int root = 0;
  bool in_place = false;
  bool blocking = true;  // run(), or start() and wait()
  BufferPlace place = BufferPlace::kHeap;
  ValueKind values = ValueKind::kPlain;
  uint32_t seed = 0;  // of values, alignments, tag, and sizes of all_to_all_v
};

std::string describe(const SuiteCase& c);

// A hash for whatever else a case decides by its seed.
uint64_t mix(uint64_t a, uint64_t b);

bool allows_in_place(CollectiveOp op);

// Elements that `rank` of `size` passes in and gets out; 0: the buffer may be null.
int64_t input_count(const SuiteCase& c, int rank, int size);
int64_t output_count(const SuiteCase& c, int rank, int size);
// What `from` sends to `to` in an all_to_all_v.
int64_t exchanged_count(const SuiteCase& c, int from, int to);

// A run of elements of an output: elements [begin, begin + count) of what `source` passed in.
struct Piece {
  static constexpr int kReduction = -1;
  int source = 0;  // rank within the group, or the reduction of all of them
  int64_t begin = 0;
  int64_t count = 0;
};
std::vector<Piece> expected_output(const SuiteCase& c, int rank, int size);

// Whether the algorithm that the case runs sums in order of rank.
bool sums_in_order(const SuiteCase& c);

// What backends over shared memory must count as sent by `rank`.
int64_t expected_bytes(const SuiteCase& c, int rank, int size);
// What the schedule of messages says that `rank` sends; `nodes` by rank, empty: all on one.
int64_t scheduled_bytes(const SuiteCase& c, int rank, int size, std::span<const int> nodes = {});

}  // namespace tessera::testing
