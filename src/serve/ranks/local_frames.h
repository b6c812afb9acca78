// Ranks as threads of this process.
#pragma once

#include <memory>
#include <vector>

#include "serve/frame.h"
#include "serve/plan/serve_plan.h"
#include "serve/ranks/frame_times.h"
#include "serve/ranks/rank_frames.h"

namespace tessera::serve {

class LocalFrameRunner final : public TimedFrameRunner {
 public:
  // Loads the weights on all ranks; returns when all are ready.
  explicit LocalFrameRunner(ServePlan plan);
  LocalFrameRunner(ServePlan plan, const TensorSource& weights);
  LocalFrameRunner(ServePlan plan, const WeightsLoader& weights);
  ~LocalFrameRunner() override;

  [[nodiscard]] const ServeShape& shape() const override;
  void start(const Frame& frame) override;
  void allow(FrameMasks masks) override;
  FrameResult finish() override;
  [[nodiscard]] uint64_t progress() const override;

  // From now on ranks tell when they computed each frame.
  void keep_times();
  [[nodiscard]] std::vector<RankFrameTimes> take_times() override;
  // With no frame under way.
  [[nodiscard]] const ServePlan& plan() const;
  [[nodiscard]] const RankFrames& rank(int rank) const;
  // From now on finish() keeps the logits of its frame, as RankFrames::logits() has them.
  void keep_logits();
  [[nodiscard]] const std::vector<std::vector<double>>& logits() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::serve
