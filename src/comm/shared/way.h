// A way of moving the data of a call, once all ranks of its group have arrived and agree.
#pragma once

#include <span>
#include <string>

#include "comm/shared/domain.h"
#include "comm/shared/pending_call.h"
#include "comm/shared/waiter.h"

namespace tessera::shared {

class Endpoint;

// Who ends the world when a call cannot be done.
class CallFailure {
 public:
  // Throws CommError, after nobody uses the buffers of this rank any more.
  [[noreturn]] virtual void fail(const std::string& text) = 0;

 protected:
  ~CallFailure() = default;
};

// What the parts of a communicator know of their group. It owns none of it.
struct GroupSite {
  Endpoint& endpoint;
  const Domain& domain;
  const Domain::Group& group;
  const std::string& name;
  std::span<const int> members;  // world ranks
  CallFailure& failure;

  [[nodiscard]] const GroupView& view() const { return group.view; }
  [[nodiscard]] int rank() const { return group.rank; }
  [[nodiscard]] int size() const { return group.view.size(); }
  [[nodiscard]] int world_rank(int rank) const { return members[static_cast<size_t>(rank)]; }
};

class Way {
 public:
  // Moves this rank's part, as far as that needs no waiting. True once all of it has moved; else
  // says what it waits for, where asked and nobody has said so yet. Calls of a group move one after
  // the other, so this goes on with the same call until it is done. Allocates nothing, unless the
  // way is new to the group.
  virtual bool move(const PendingCall& pending, Blocker* blocker) = 0;

 protected:
  ~Way() = default;
};

}  // namespace tessera::shared
