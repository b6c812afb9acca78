// What the cost model says of a strategy.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost/hardware/constant.h"

namespace tessera {

enum class MemoryPart : uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kGathered,     // ZeRO-3: whole weights of the layers in use
  kActivations,  // kept from forward to backward
  kWorking,      // of the layer in work: recomputed values, logits, their gradients
  kBuffers,      // communication, libraries' workspace
};
inline constexpr int kNumMemoryParts = 7;
std::string_view name_of(MemoryPart part);

struct StageMemory {
  int stage = 0;  // pipeline rank
  std::array<int64_t, kNumMemoryParts> bytes = {};
  [[nodiscard]] int64_t total() const;
};

enum class CommAxis : uint8_t { kTensor, kContext, kExpert, kPipeline, kData };
inline constexpr int kNumCommAxes = 5;
std::string_view name_of(CommAxis axis);

// One optimizer step: kernels, exposed communication, bubble and optimizer add up to `step_s`.
struct StepTime {
  double step_s = 0;
  double compute_s = 0;    // kernels of the busiest stage: forward and backward
  double forward_s = 0;    // of which: in forward; 0 where only `quick` prices are asked for
  double recompute_s = 0;  // of which: computed again, in backward
  std::array<double, kNumCommAxes> exposed_s = {};  // communication that nothing hides
  double bubble_s = 0;
  double optimizer_s = 0;
  [[nodiscard]] double backward_s() const { return compute_s - forward_s; }
  // Bytes over bandwidth of the busiest link in one direction, and what sends most of them:
  // `step_s` is never less.
  double link_s = 0;
  CommAxis link_axis = CommAxis::kData;
};

// Bytes that the busiest rank sends in a step, and the level of links that they cross at the
// outermost.
struct AxisTraffic {
  double bytes = 0;
  int level = 0;
  double busy_s = 0;  // time of communication, hidden or not
};

// A value that the request did not say, and what was taken.
struct Guess {
  std::string what;
  std::string taken;
};

// What a search compares; no heap.
struct QuickEstimate {
  double step_s = 0;
  int64_t peak_bytes = 0;  // of the fullest stage
};

struct Estimate {
  StepTime time;
  std::vector<StageMemory> stages;  // by pipeline rank
  int fullest_stage = 0;
  std::array<AxisTraffic, kNumCommAxes> traffic = {};
  double model_flops = 0;     // of a step, all devices, causal attention halved
  double hardware_flops = 0;  // with what is recomputed
  double mfu = 0;
  double hfu = 0;
  double tokens_per_s = 0;
  double flops_per_device_s = 0;
  std::vector<Guess> guesses;
};

}  // namespace tessera
