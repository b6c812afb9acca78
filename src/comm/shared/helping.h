// Where ranks outnumber cores, a rank that waits keeps a core from one that could move data, and
// every switch between them costs microseconds. So whoever runs once all have arrived moves any
// part that nobody has claimed, its own first, and a rank that gets a core late finds its part
// done.
//
// A rank claims parts after it has announced that it moves and before it announces that it has
// moved, and holds none in between two calls of advance(). So once every part is claimed, those who
// hold some are exactly members that have begun and not finished: they are waited for, as after an
// abort, and a member that has not begun will find nothing left and touch no buffer.
#pragma once

#include "comm/shared/assembly.h"
#include "comm/shared/way.h"

namespace tessera::shared {

class Helping final : public Way {
 public:
  Helping(const GroupSite& site, Assembly& assembly) : site_(site), assembly_(assembly) {}

  // Whether peers may move this rank's part, where all members say so.
  [[nodiscard]] bool may_be_helped(const CollectiveCall& call) const;
  bool move(const PendingCall& pending, Blocker* blocker) override;
  // Asked once this rank has moved, so that every part is claimed.
  [[nodiscard]] bool holds_parts(const PendingCall& pending, int peer) const;

 private:
  [[nodiscard]] bool claim_part(const PendingCall& pending, int part) const;

  const GroupSite& site_;
  Assembly& assembly_;
};

}  // namespace tessera::shared
