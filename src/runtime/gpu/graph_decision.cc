#include "runtime/gpu/graph_decision.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

// The first loads kernels and lets libraries plan; the second is as all that follow.
constexpr int kWarmSteps = 2;
// Below this the GPU is not waiting for the host.
constexpr double kWorthShare = 0.5;

// Every kernel of a step comes from this thread alone, in an order that never changes, unless
// collectives meet on the host in between.
std::string obstacle(bool on_gpu, const Program& program) {
  if (!on_gpu) return "the run is not on a GPU";
  const bool communicates =
      std::any_of(program.instructions.begin(), program.instructions.end(),
                  [](const Instruction& i) { return i.stream != StreamKind::kCompute; });
  return communicates ? "its collectives meet on the host" : "";
}

}  // namespace

GraphDecision::GraphDecision(CudaGraph wanted, bool on_gpu, const Program& program)
    : wanted_(wanted) {
  const std::string why = obstacle(on_gpu, program);
  require_config(wanted_ != CudaGraph::kOn || why.empty(),
                 "train.cuda_graph = \"on\", but a step cannot be a graph: {}; use \"auto\" or "
                 "\"off\"",
                 why);
  if (wanted_ == CudaGraph::kOff || !why.empty()) {
    refuse(wanted_ == CudaGraph::kOff ? "train.cuda_graph is \"off\"" : why);
    return;
  }
  state_ = State::kWatches;
  why_not_ = "too few steps";
}

void GraphDecision::refuse(std::string why) {
  state_ = State::kNever;
  why_not_ = std::move(why);
}

void GraphDecision::saw_step(double launch_s, double step_s) {
  if (state_ != State::kWatches || ++seen_ < kWarmSteps) return;
  const double share = step_s > 0 ? launch_s / step_s : 0;
  if (wanted_ == CudaGraph::kOn || share >= kWorthShare) {
    state_ = State::kCaptures;
  } else {
    refuse(
        fmt::format("launching takes {:.0f} % of a step, so there is little to gain", 100 * share));
  }
}

void GraphDecision::captured(int64_t nodes) {
  state_ = State::kReplays;
  nodes_ = nodes;
}

void GraphDecision::not_captured(const std::string& why) {
  refuse("capturing a step failed: " + why);
  require(wanted_ != CudaGraph::kOn, "train.cuda_graph = \"on\": {}; use \"auto\" or \"off\"",
          why_not_);
}

std::string GraphDecision::text() const {
  return replays() ? fmt::format("{} nodes", nodes_) : "none: " + why_not_;
}

}  // namespace tessera
