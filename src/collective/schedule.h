// Collectives as data: what each rank sends, receives, copies and adds, step by step. The message
// communicators execute these lists, the cost table counts them, and they can be drawn. Pure
// functions: the same request gives the same list.
//
// A rank goes through its rounds in order. The steps of one round touch different elements, so they
// may run in any order or at once; a round begins when the one before is complete on this rank.
// A message has the same round number at both ends, and messages between two ranks match in the
// order they are listed. Nothing waits in a circle, even where a send only completes once its
// receive was posted. All of it holds for in-place calls too (CollectiveCall says which those are).
//
// Steps without elements are left out, except in a barrier, whose messages are empty.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collective/algorithm.h"
#include "collective/op.h"

namespace tessera {

enum class StepAction : uint8_t {
  kSend,     // `from` to `peer`
  kReceive,  // from `peer` into `to`
  kCopy,     // `from` to `to`; nothing to do where both are the same memory
  kReduce,   // the operands, combined in the order listed, into `to`
};
enum class StepBuffer : uint8_t { kIn, kOut, kScratch };

struct StepPlace {
  StepBuffer buffer = StepBuffer::kIn;
  int64_t begin = 0;  // in elements
  bool operator==(const StepPlace&) const = default;
};

constexpr StepPlace operator+(StepPlace place, int64_t elements) {
  return {place.buffer, place.begin + elements};
}

struct CollectiveStep {
  int round = 0;
  StepAction action = StepAction::kCopy;
  int peer = -1;
  StepPlace from = {};
  StepPlace to = {};
  int64_t count = 0;      // elements
  int first_operand = 0;  // kReduce: operands[first_operand …] of the schedule
  int num_operands = 0;
  // kReduce: nothing is added to the result later. A mean is divided by the number of ranks here.
  bool complete = false;
};

struct CollectiveSchedule {
  int64_t element_bytes = 4;
  int64_t scratch_count = 0;          // elements of scratch that the rank needs
  std::vector<CollectiveStep> steps;  // in order of round
  std::vector<StepPlace> operands;
};

// One rank's part of one call. Fields as in CollectiveCall.
struct ScheduleRequest {
  CollectiveOp op = CollectiveOp::kBarrier;
  Algorithm algorithm = Algorithm::kDirect;  // not kAuto
  int ranks = 1;
  int rank = 0;
  int root = 0;  // the peer of send and receive
  int64_t count = 0;
  int64_t element_bytes = 4;
  bool in_place = false;            // all_to_all: out is in
  std::span<const int> nodes = {};  // hierarchical: the node of each rank; empty: all on one
  std::span<const int64_t> send_counts = {};  // all_to_all_v, by rank
  std::span<const int64_t> receive_counts = {};
};

// Throws ConfigError for an algorithm that the op does not have.
CollectiveSchedule make_schedule(const ScheduleRequest& request);

// What `op` can run, kAuto not among them; all ops have kDirect.
std::span<const Algorithm> supported_algorithms(CollectiveOp op);
bool supports(CollectiveOp op, Algorithm algorithm);
// "scatter has no algorithm 'ring': use direct, naive, tree".
std::string what_is_unsupported(CollectiveOp op, Algorithm algorithm);
void require_supported(CollectiveOp op, Algorithm algorithm);  // throws ConfigError with that text

// The result is ((r0 + r1) + r2) + …, whatever the sizes and timing: the same bits from each of
// them. The others repeat bit for bit too, but add in an order of their own and round 16-bit types
// between steps.
constexpr bool promises_rank_order(Algorithm algorithm) {
  return algorithm == Algorithm::kOneShot || algorithm == Algorithm::kDirect ||
         algorithm == Algorithm::kNaive;
}

int64_t bytes_sent(const CollectiveSchedule& schedule);

// One line per step: "0: send in[0, 16) to 1".
std::string to_text(const CollectiveSchedule& schedule);

}  // namespace tessera
