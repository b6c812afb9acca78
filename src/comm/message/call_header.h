// What ranks tell each other about a call before its data: the fingerprint that must agree, and
// where the data will come.
#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.h"

namespace tessera::message {

enum class ControlKind : uint8_t {
  kCall,   // the header is about a call
  kLeave,  // the sender is gone: nothing comes from it any more
};

// Travels as it lies in memory, between processes of the same build.
struct CallHeader {
  static constexpr uint64_t kProtocol = 0x1041'7353'5353'4554;  // changes with this layout

  uint64_t protocol = kProtocol;
  ControlKind kind = ControlKind::kCall;
  CollectiveOp op = CollectiveOp::kBarrier;
  ReduceOp reduce = ReduceOp::kSum;
  DType dtype = DType::kF32;
  Algorithm asked = Algorithm::kAuto;  // for messages only
  Algorithm chosen = Algorithm::kDirect;
  uint8_t unused[2] = {};
  int32_t root = 0;
  uint32_t tag = 0;
  uint32_t stream = 0;  // of the data from the sender to the receiver of this header
  uint32_t unused_too = 0;
  int64_t count = 0;      // all_to_all_v: what the sender has for the receiver
  uint64_t sequence = 0;  // the group's first collective is 1; messages count per pair of ranks
  uint64_t group = 0;
  int64_t sent_at_us = 0;  // by the sender's clock
};
static_assert(sizeof(CallHeader) == 64);

// Fields that the op does not use are set to their defaults, so that they agree.
CallHeader make_header(const CollectiveCall& call, Algorithm chosen, uint64_t group,
                       uint64_t sequence);

// Whether two ranks are in the same call; of an all_to_all_v without the counts. A send agrees with
// a receive.
bool agree(const CallHeader& mine, const CallHeader& theirs);

// As describe(call, sequence).
std::string describe(const CallHeader& header);

// "rank 2 called all_gather(f32, 4096) #17 while rank 0 called all_reduce(f32, 4096) #17", the
// higher rank first. World ranks.
std::string disagreement(int rank, const CallHeader& header, int other_rank,
                         const CallHeader& other);

}  // namespace tessera::message
