#include "runtime/traffic_meter.h"

#include <map>
#include <utility>

namespace tessera {

void TrafficMeter::watch(std::string group, const Communicator& communicator) {
  watched_.push_back({std::move(group), &communicator});
}

void TrafficMeter::reset() {
  for (Watched& watched : watched_) watched.before = watched.communicator->counters();
}

std::vector<Traffic> TrafficMeter::traffic() const {
  std::map<std::pair<std::string, std::string>, TrafficCounter> by_name;
  for (const Watched& watched : watched_) {
    const TrafficCounters counters = watched.communicator->counters();
    for (size_t op = 0; op < counters.size(); ++op) {
      const int64_t calls = counters[op].calls - watched.before[op].calls;
      if (calls == 0) continue;
      TrafficCounter& sum =
          by_name[{watched.group, std::string(name_of(static_cast<CollectiveOp>(op)))}];
      sum.calls += calls;
      sum.bytes_sent += counters[op].bytes_sent - watched.before[op].bytes_sent;
    }
  }
  std::vector<Traffic> list;
  for (const auto& [name, sum] : by_name) {
    list.push_back({name.first, name.second, sum.calls, sum.bytes_sent});
  }
  return list;
}

}  // namespace tessera
