// Bytes that a call sends. NCCL does not tell what it moved, so they are counted as the chosen
// algorithm of the other backends would move them (collective/algorithm.h): what the plan counts. A
// byte is sent by the rank whose buffer it is read from, or that stores it elsewhere. NCCL's own
// ring moves the same number for large calls, to within a slice's rounding.
#pragma once

#include "collective/slices.h"
#include "comm/communicator.h"

namespace tessera::nccl {

inline int64_t nominal_bytes_sent(const CollectiveCall& call, int rank, int size) {
  const int64_t element = size_bytes(call.dtype);
  const int64_t bytes = call.count * element;
  const int64_t peers = size - 1;
  const bool is_root = rank == call.root;
  switch (call.op) {
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kScatter:
      return is_root ? bytes * peers : 0;
    case CollectiveOp::kGather:
    case CollectiveOp::kReduce:
      return is_root ? 0 : bytes;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
      return bytes * peers;
    case CollectiveOp::kAllReduce: {
      if (choose_algorithm(call.op, bytes, size) == Algorithm::kOneShot) return bytes * peers;
      const int64_t own = all_reduce_slice(call.count, element, rank, size).size() * element;
      return bytes - own + own * peers;
    }
    case CollectiveOp::kAllToAllV: {
      int64_t elements = 0;
      for (const int64_t count : call.send_counts) elements += count;
      return (elements - call.send_counts[static_cast<size_t>(rank)]) * element;
    }
    case CollectiveOp::kSend:
      return bytes;
    case CollectiveOp::kReceive:
    case CollectiveOp::kBarrier:
      return 0;
  }
  return 0;
}

}  // namespace tessera::nccl
