// How the ranks of a group meet on the host before a call touches data: each says what it calls,
// and learns what the others call. Nothing here blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace tessera::nccl {

// The host-side groups of one NCCL group. A sender and its receiver announce themselves to each
// other on different ones, so that messages both ways between two ranks cannot be mixed up.
struct HostGroups {
  Communicator& calls;
  Communicator& replies;
};

// What one rank says about its call. Sequence numbers count the collectives of a group, or the
// messages from one rank to another.
struct CallRecord {
  uint64_t sequence = 0;
  int64_t count = 0;
  int32_t root = 0;
  uint32_t tag = 0;
  CollectiveOp op = CollectiveOp::kBarrier;
  ReduceOp reduce = ReduceOp::kSum;
  DType dtype = DType::kF32;
  uint8_t unused[5] = {};  // the record travels as bytes
  bool operator==(const CallRecord&) const = default;
};

class Handshake {
 public:
  // `call` must live until the handshake is done; this object stays where it is until then.
  void begin(const HostGroups& groups, const CollectiveCall& call, uint64_t sequence);
  void skip();  // this call is not compared

  // Whether every rank concerned has called.
  [[nodiscard]] bool done();
  // Throws CommError when one of them will not come any more.
  void look_for_trouble();
  // Waits for them, and throws CommError naming who did not come.
  void wait();
  // How the calls disagree; empty when they do not. To be asked once, when done.
  [[nodiscard]] std::string mismatch() const;
  [[nodiscard]] bool compared() const { return groups_ != nullptr; }

 private:
  void begin_collective();
  void begin_message();
  [[nodiscard]] std::string records_mismatch() const;
  [[nodiscard]] std::string counts_mismatch() const;
  [[nodiscard]] std::string message_mismatch() const;
  [[nodiscard]] std::string disagreement(int rank, const CallRecord& record, int other_rank,
                                         const CallRecord& other) const;

  const HostGroups* groups_ = nullptr;
  const CollectiveCall* call_ = nullptr;
  CallRecord mine_;
  std::vector<CallRecord> theirs_;      // by rank; of a message, the peer's alone
  std::vector<int64_t> counts_for_me_;  // all_to_all_v: what each rank sends to this one
  Work records_;                        // comes with the others' records
  Work extra_;  // takes this rank's record to the peer of a message; all_to_all_v: the counts
};

}  // namespace tessera::nccl
