// One rank on the thread that calls it, whose instructions are timed: what frames are made of.
#pragma once

#include <memory>
#include <vector>

#include "serve/frame.h"
#include "serve/plan/serve_plan.h"

namespace tessera::serve {

class ProbeRank final : public FrameRunner {
 public:
  // A plan of one rank, with a random model.
  explicit ProbeRank(ServePlan plan);
  ~ProbeRank() override;

  [[nodiscard]] const ServeShape& shape() const override;
  void start(const Frame& frame) override;
  void allow(FrameMasks masks) override;
  // Without tokens.
  FrameResult finish() override;

  // That runs a frame.
  [[nodiscard]] const Program& program_of(const Frame& frame) const;
  // Seconds of every instruction of it, the median of `repeats` runs behind one that warms up.
  std::vector<double> time_instructions(const Frame& frame, int64_t repeats);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::serve
