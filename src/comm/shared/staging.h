// Calls in which a buffer of some rank lies outside the shared memory. They move part by part:
// every rank copies the next part of a foreign input into its stage, all wait for all, move between
// stages and reachable buffers, wait again, and copy results out.
#pragma once

#include "comm/shared/assembly.h"
#include "comm/shared/way.h"
#include "tensor/arena.h"

namespace tessera::shared {

class Staging final : public Way {
 public:
  Staging(const GroupSite& site, Assembly& assembly) : site_(site), assembly_(assembly) {}

  // Before a call with a foreign buffer is published: a stage that peers reach.
  void make_stage();
  bool move(const PendingCall& pending, Blocker* blocker) override;

 private:
  void copy_stage(const PendingCall& pending, int64_t begin, int64_t end, int64_t stride, bool in);
  bool await_peers(Counter Member::*counter, uint32_t target, Blocker* blocker) const;

  const GroupSite& site_;
  Assembly& assembly_;
  HostArena stage_;
  uint32_t parts_ = 0;  // since the beginning; the same on all ranks
  // The call at hand.
  int64_t part_ = 0;     // parts done
  bool filled_ = false;  // the next part is in the stage
  bool moved_ = false;
};

}  // namespace tessera::shared
