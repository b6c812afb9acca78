#include "cost/step/link_load.h"

#include <algorithm>

#include "cost/step/to_double.h"

namespace tessera {

LinkLoad::Busiest LinkLoad::busiest() const {
  Busiest busiest;
  for (const auto& axes : busy_) {
    double sum = 0;
    for (const double seconds : axes) sum += seconds;
    if (sum <= busiest.seconds) continue;
    const auto most = std::max_element(axes.begin(), axes.end()) - axes.begin();
    busiest = {sum, static_cast<CommAxis>(most)};
  }
  return busiest;
}

void add_messages(LinkLoad& load, const Cluster& cluster, const PipelineMessages& messages) {
  const int64_t ranks = messages.ranks.ranks;
  int64_t joined = 1;  // ranks that the levels so far join
  for (size_t i = 0; i < cluster.levels.size() && joined < ranks; ++i) {
    const LinkLevel& level = cluster.levels[i];
    const int64_t within = ranks_within(cluster, level, messages.ranks);
    if (within <= joined) continue;
    // One that is joined to a neighbour already has at most the other one here.
    const double neighbours = joined == 1 && within > 2 ? 2 : 1;
    const bool goes_around = within == ranks && messages.around > 0;
    double sent = neighbours * messages.count;
    if (goes_around) {
      sent = std::max(sent, (joined == 1 ? messages.count : 0) + messages.around);
    }
    if (level.shape == LinkShape::kShared) {  // all of them on one bus: an average device's part
      const double all = 2 * messages.count * to_double(within - 1);
      sent = (all + (goes_around ? 2 * messages.around : 0)) / to_double(within);
    }
    load.add(static_cast<int>(i), CommAxis::kPipeline,
             sent * messages.bytes / link_rate(cluster, level));
    joined = within;
  }
}

}  // namespace tessera
