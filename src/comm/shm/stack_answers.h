// A rank's side of the question where its threads are. Whoever started the rank sends kStackSignal
// to each of them, and each writes the addresses of the calls that it is in into the shared memory:
// the names, ShmMemory's owner finds by itself (launch/agent/rank_stacks.h).
//
// Asked is only a rank that is about to be ended, so an answer that never comes costs nothing: a
// thread may be inside the very lock that finding its callers takes.
#pragma once

#include <csignal>

#include "comm/shared/layout.h"

namespace tessera {

// A process that has no handler for it ignores it.
inline constexpr int kStackSignal = SIGURG;

// One at a time in a process. `block` must outlive it.
class StackAnswers {
 public:
  explicit StackAnswers(shared::StackBlock& block);
  ~StackAnswers();
  StackAnswers(const StackAnswers&) = delete;
  StackAnswers& operator=(const StackAnswers&) = delete;
};

}  // namespace tessera
