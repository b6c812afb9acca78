// Whether the launches of a step are kept as a CUDA graph and replayed: asked for in
// train.cuda_graph, possible, and worth it. Pure: the executor measures, captures and replays.
#pragma once

#include <cstdint>
#include <string>

#include "compile/program/program.h"
#include "spec/choices.h"

namespace tessera {

class GraphDecision {
 public:
  // Throws ConfigError for kOn where it is not possible.
  GraphDecision(CudaGraph wanted, bool on_gpu, const Program& program);

  // A step was launched instruction by instruction, in `launch_s` of the `step_s` that it took.
  void saw_step(double launch_s, double step_s);
  // The next step is to be captured; then it is, or is not.
  [[nodiscard]] bool captures() const { return state_ == State::kCaptures; }
  void captured(int64_t nodes);
  // Throws Error where the graph was asked for.
  void not_captured(const std::string& why);
  [[nodiscard]] bool replays() const { return state_ == State::kReplays; }

  // "312 nodes", "none: why".
  [[nodiscard]] std::string text() const;

 private:
  enum class State : uint8_t { kNever, kWatches, kCaptures, kReplays };
  void refuse(std::string why);

  CudaGraph wanted_;
  State state_ = State::kNever;
  std::string why_not_;
  int64_t nodes_ = 0;
  int seen_ = 0;  // steps
};

}  // namespace tessera
