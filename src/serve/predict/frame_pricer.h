// How long a frame takes: every instruction of its Program by what was measured of frames on this
// machine (tessera calibrate), or by the constants of a cluster's device where nothing was. Serving
// has no two things to do at once: a stage takes as long as its instructions one after another.
// Pure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cost/hardware/cluster.h"
#include "serve/plan/serve_estimate.h"
#include "serve/predict/frame_load.h"

namespace tessera::serve {

struct FramePrice {
  std::vector<double> stage_s;  // kernels, collectives and what the host does, by stage
  double message_s = 0;         // from a stage to the next one
  // All stages together. Where frames of so many ranks were measured, what they tell each other
  // is with what the host does.
  double products_s = 0, attention_s = 0, others_s = 0, collectives_s = 0, host_s = 0;
  [[nodiscard]] double kernels_s() const { return products_s + attention_s + others_s; }
  [[nodiscard]] double total_s() const;  // through all stages
  [[nodiscard]] double slowest_s()
      const;  // where frames fill the pipeline, one leaves it that often
};

class FramePricer {
 public:
  // `cluster` must outlive this. `ranks_are`: "processes" or "threads", which a measured machine
  // tells apart. Throws ConfigError where frames of this type have no price there.
  FramePricer(const ServeEstimate& estimate, const Cluster& cluster, std::string ranks_are);
  ~FramePricer();
  FramePricer(const FramePricer&) = delete;
  FramePricer& operator=(const FramePricer&) = delete;

  // Whether frames were measured there; else prices rest on the constants of the device.
  [[nodiscard]] bool measured() const;

  // `busy_stages`: that compute at the same time, on cores that they may share. The frame fits the
  // largest bucket.
  FramePrice price(const FrameLoad& load, int busy_stages = 1);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::serve
