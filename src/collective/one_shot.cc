// One shot: every rank gets every contribution and reduces all of it. One exchange and (n-1) times
// the data: for arrays so small that only the number of exchanges counts.
//
//   step 1   every rank: in -> everybody
//   then     every rank: out = r0 + r1 + r2 + …
#include <vector>

#include "base/error.h"
#include "collective/algorithms.h"

namespace tessera {

void schedule_one_shot(ScheduleBuilder& b) {
  TESSERA_CHECK(b.request().op == CollectiveOp::kAllReduce, "one_shot is for all_reduce");
  std::vector<StepPlace> contributions(static_cast<size_t>(b.ranks()), place::in());
  for (int distance = 1; distance < b.ranks(); ++distance) {
    b.send(b.neighbour(distance), place::in(), b.count());
    const int from = b.neighbour(-distance);
    StepPlace& place = contributions[static_cast<size_t>(from)] = b.scratch(b.count());
    b.receive(from, place, b.count());
  }
  b.next_round();
  b.complete(contributions, place::out(), b.count());
}

}  // namespace tessera
