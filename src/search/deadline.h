// How many devices a training needs to end in time: searches on clusters of one family, of more and
// more devices.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "search/search.h"

namespace tessera {

struct DeadlineQuestion {
  double days = 0;
  int64_t tokens = 0;                  // of the whole training
  int64_t devices = 1;                 // where to begin: of the cluster that was named
  int64_t most_devices = kMaxDevices;  // that the family has
  // The family's cluster of so many devices. Throws ConfigError where it has none.
  std::function<Cluster(int64_t devices)> cluster_of = {};
};

// One number of devices that was tried.
struct TriedCount {
  int64_t devices = 0;
  double step_s = 0;  // 0: no plan
  std::string lacks;  // why there is none
  double days = 0, usd = 0;
};

struct DeadlineAnswer {
  DeadlineQuestion question;
  std::vector<TriedCount> tried;  // by devices
  int64_t devices = 0;            // the fewest that end in time; 0: none of them
  bool out_of_budget = false;     // others were not tried
  [[nodiscard]] bool is_met_by(const TriedCount& count) const {
    return count.step_s > 0 && count.days <= question.days;
  }
  // The most that were tried and do not end in time, of those below the answer; nullptr: none.
  [[nodiscard]] const TriedCount* below() const;
};

// `request` has the workload but for its cluster's size. At most 20 searches: counts double, or
// halve, until one ends in time and half of it does not; between the two, quarters are tried.
DeadlineAnswer search_deadline(const SearchRequest& request, const DeadlineQuestion& question,
                               const OnProgress& progress);

// Days and price of the whole training at `step_s`.
TriedCount count_of(const Workload& workload, const DeadlineQuestion& question, double step_s);

}  // namespace tessera
