// How long the links of a device carry bytes in one direction in a step, at least: bytes over
// bandwidth, by the level of the links and by what sends them. Whatever hides behind what, no step
// is shorter than its busiest link is in use.
#pragma once

#include <array>

#include "cost/step/collective_time.h"
#include "cost/step/estimate.h"

namespace tessera {

class LinkLoad {
 public:
  void add(int level, CommAxis axis, double seconds) {
    if (static_cast<size_t>(level) >= kLevels) return;  // less is still a bound
    busy_[static_cast<size_t>(level)][static_cast<size_t>(axis)] += seconds;
  }

  [[nodiscard]] double seconds(int level, CommAxis axis) const {
    if (static_cast<size_t>(level) >= kLevels) return 0;
    return busy_[static_cast<size_t>(level)][static_cast<size_t>(axis)];
  }

  // Seconds of the busiest level, and what sends most of it.
  struct Busiest {
    double seconds = 0;
    CommAxis axis = CommAxis::kData;
  };
  [[nodiscard]] Busiest busiest() const;

 private:
  static constexpr size_t kLevels = 6;
  std::array<std::array<double, kNumCommAxes>, kLevels> busy_ = {};
};

// Messages of a pipeline: `count` messages of `bytes` go each way between neighbours, and `around`
// each way between the last rank and the first.
struct PipelineMessages {
  RankGroup ranks;
  double bytes = 0;
  double count = 0;
  double around = 0;
};
void add_messages(LinkLoad& load, const Cluster& cluster, const PipelineMessages& messages);

}  // namespace tessera
