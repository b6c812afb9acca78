#include "comm/testing/suite_case.h"

#include "base/dtype.h"
#include "base/error.h"
#include "collective/schedule.h"
#include "collective/slices.h"

namespace tessera::testing {
namespace {

constexpr std::string_view kPlaceNames[kNumBufferPlaces] = {"heap", "foreign", "mixed by rank",
                                                            "mixed by buffer"};

bool is_rooted_at(const SuiteCase& c, int rank) { return rank == c.root; }

// Whether every contribution of a reduction is handed over in a mailbox.
bool is_mailed(const SuiteCase& c, int size) {
  if (c.algorithm != Algorithm::kAuto) return c.algorithm == Algorithm::kOneShot;
  const int64_t bytes = c.count * size_bytes(c.dtype);
  if (c.op != CollectiveOp::kAllReduce) return bytes <= one_shot_bytes(size);
  return choose_algorithm(c.op, bytes, size) == Algorithm::kOneShot;
}

int sender_to(const SuiteCase& c, int rank, int size) { return (rank - c.root + size) % size; }

}  // namespace

std::string describe(const SuiteCase& c) {
  return fmt::format("{}({}, {}, {}, {}, root {}{}{}, {}{}, seed {})", name_of(c.op),
                     name_of(c.dtype), c.count, name_of(c.reduce), name_of(c.algorithm), c.root,
                     c.in_place ? ", in place" : "", c.blocking ? "" : ", asynchronous",
                     kPlaceNames[static_cast<size_t>(c.place)],
                     c.values == ValueKind::kSpecial ? ", special values" : "", c.seed);
}

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t h = (a + 0x9E3779B97F4A7C15U) * 0xBF58476D1CE4E5B9U ^ b;
  h = (h ^ (h >> 29)) * 0x94D049BB133111EBU;
  return h ^ (h >> 31);
}

bool allows_in_place(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kScatter:
    case CollectiveOp::kGather:
    case CollectiveOp::kReduce:
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kAllToAll:
      return true;
    default:
      return false;  // broadcast has one buffer anyway
  }
}

int64_t input_count(const SuiteCase& c, int rank, int size) {
  switch (c.op) {
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kBarrier:
    case CollectiveOp::kReceive:
      return 0;
    case CollectiveOp::kScatter:
      return is_rooted_at(c, rank) ? size * c.count : 0;
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
      return size * c.count;
    case CollectiveOp::kGather:
    case CollectiveOp::kReduce:
    case CollectiveOp::kAllGather:
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kSend:
      return c.count;
    case CollectiveOp::kAllToAllV: {
      int64_t sum = 0;
      for (int to = 0; to < size; ++to) sum += exchanged_count(c, rank, to);
      return sum;
    }
  }
  return 0;
}

int64_t output_count(const SuiteCase& c, int rank, int size) {
  int64_t sum = 0;
  for (const Piece& piece : expected_output(c, rank, size)) sum += piece.count;
  return sum;
}

int64_t exchanged_count(const SuiteCase& c, int from, int to) {
  const uint64_t h = mix(mix(c.seed, static_cast<uint64_t>(from)), static_cast<uint64_t>(to));
  const bool nothing = h % 5 == 0;
  return nothing ? 0 : static_cast<int64_t>((h >> 8) % static_cast<uint64_t>(c.count + 1));
}

std::vector<Piece> expected_output(const SuiteCase& c, int rank, int size) {
  std::vector<Piece> pieces;
  switch (c.op) {
    case CollectiveOp::kBroadcast:
      return {{c.root, 0, c.count}};
    case CollectiveOp::kScatter:
      return {{c.root, rank * c.count, c.count}};
    case CollectiveOp::kReduce:
      if (is_rooted_at(c, rank)) pieces.push_back({Piece::kReduction, 0, c.count});
      return pieces;
    case CollectiveOp::kReduceScatter:
      return {{Piece::kReduction, rank * c.count, c.count}};
    case CollectiveOp::kAllReduce:
      return {{Piece::kReduction, 0, c.count}};
    case CollectiveOp::kGather:
    case CollectiveOp::kAllGather:
      if (c.op == CollectiveOp::kGather && !is_rooted_at(c, rank)) return pieces;
      for (int from = 0; from < size; ++from) pieces.push_back({from, 0, c.count});
      return pieces;
    case CollectiveOp::kAllToAll:
      for (int from = 0; from < size; ++from) pieces.push_back({from, rank * c.count, c.count});
      return pieces;
    case CollectiveOp::kAllToAllV:
      for (int from = 0; from < size; ++from) {
        int64_t begin = 0;
        for (int to = 0; to < rank; ++to) begin += exchanged_count(c, from, to);
        pieces.push_back({from, begin, exchanged_count(c, from, rank)});
      }
      return pieces;
    case CollectiveOp::kSend:
      return {{sender_to(c, rank, size), 0, c.count}};
    case CollectiveOp::kReceive:
    case CollectiveOp::kBarrier:
      return pieces;
  }
  return pieces;
}

bool sums_in_order(const SuiteCase& c) {
  return c.algorithm == Algorithm::kAuto || promises_rank_order(c.algorithm);
}

int64_t expected_bytes(const SuiteCase& c, int rank, int size) {
  const int64_t width = size_bytes(c.dtype);
  const int64_t bytes = c.count * width;
  const int64_t to_others = bytes * (size - 1);
  const int64_t slice = all_reduce_slice(c.count, width, rank, size).size() * width;
  if (size == 1) return 0;
  switch (c.op) {
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kScatter:
      return is_rooted_at(c, rank) ? to_others : 0;
    case CollectiveOp::kGather:
      return is_rooted_at(c, rank) ? 0 : bytes;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
      return to_others;
    case CollectiveOp::kAllToAllV:
      return (input_count(c, rank, size) - exchanged_count(c, rank, rank)) * width;
    case CollectiveOp::kSend:
      return bytes;
    case CollectiveOp::kReceive:
    case CollectiveOp::kBarrier:
      return 0;
    case CollectiveOp::kReduce:
      if (is_mailed(c, size)) return is_rooted_at(c, rank) ? 0 : bytes;
      // Each rank reduces its slice and stores it at the root.
      return is_rooted_at(c, rank) ? bytes - slice : bytes;
    case CollectiveOp::kAllReduce:
      return is_mailed(c, size) ? to_others : bytes - slice + slice * (size - 1);
  }
  return 0;
}

int64_t scheduled_bytes(const SuiteCase& c, int rank, int size, std::span<const int> nodes) {
  // Exchanges move what they are given, over messages as over shared memory.
  if (c.op == CollectiveOp::kAllToAllV || c.op == CollectiveOp::kSend) {
    return expected_bytes(c, rank, size);
  }
  const int64_t width = size_bytes(c.dtype);
  const bool automatic = c.algorithm == Algorithm::kAuto;
  return bytes_sent(make_schedule(
      {.op = c.op,
       .algorithm = automatic ? choose_algorithm(c.op, c.count * width, size) : c.algorithm,
       .ranks = size,
       .rank = rank,
       .root = c.root,
       .count = c.count,
       .element_bytes = width,
       .in_place = c.in_place,
       .nodes = nodes}));
}

}  // namespace tessera::testing
