// Puts together what one rank moves of a call: where the blocks of every rank lie.
#pragma once

#include <vector>

#include "comm/shared/movement.h"
#include "comm/shared/pending_call.h"
#include "comm/shared/way.h"

namespace tessera::shared {

class Assembly {
 public:
  explicit Assembly(const GroupSite& site);

  // All of the call, or elements [begin, end) of each block; `stage_stride` is the distance of
  // blocks in the stages of ranks whose buffers are staged. Good until the next one is asked for.
  [[nodiscard]] Movement whole(const PendingCall& pending);
  [[nodiscard]] Movement range(const PendingCall& pending, int64_t begin, int64_t end,
                               int64_t stage_stride);
  // Elements of the longest block that any rank has for another.
  [[nodiscard]] int64_t longest_block(const PendingCall& pending) const;

 private:
  void find_sides(const PendingCall& pending, int peer, int64_t begin, int64_t stage_stride);

  const GroupSite& site_;
  // By rank.
  std::vector<Side> in_, out_;
  std::vector<const void*> sources_;
  std::vector<void*> targets_;
  std::vector<int64_t> offsets_, lengths_;
};

}  // namespace tessera::shared
