// A collective of one rank on its way through the stages (comm/shared/shared_communicator.h).
#pragma once

#include <cstdint>

#include "comm/communicator.h"

namespace tessera::shared {

struct PendingCall {
  CollectiveCall call;
  uint64_t sequence = 0;
  uint64_t history = 0;
  bool published = false;
  bool on_device = false;
  bool mailed = false;
  bool scheduled = false;
  // Known once all have arrived.
  bool staged = false;
  bool any_in_place = false;
  bool helped = false;       // any member may move any part
  uint8_t any_flags = 0;     // of the members checked
  uint8_t all_flags = 0xff;  //
  int checked = 0;           // peers that have arrived and agree

  // No peer touches a buffer of this rank once this rank has moved.
  [[nodiscard]] bool leaves_at_once() const { return mailed || staged || scheduled; }
};

// Whether `rank` may move only after `peer` has arrived.
inline bool awaits(const PendingCall& pending, int rank, int peer) {
  if (peer == rank) return false;
  if (pending.scheduled) return true;
  const int root = pending.call.root;
  switch (pending.call.op) {
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kScatter:
      return peer == root;
    case CollectiveOp::kGather:  // the root takes from mailboxes; others store at the root
      return pending.mailed ? rank == root : peer == root;
    case CollectiveOp::kReduce:
      return !pending.mailed || rank == root;
    default:
      return true;
  }
}

}  // namespace tessera::shared
