#include "launch/stop_time.h"

#include <algorithm>

namespace tessera {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kStepsOfPatience = 3;
constexpr milliseconds kStepSlack{1'000};
constexpr milliseconds kSaveSlack{30'000};
constexpr int64_t kSlowDiskBytesPerMs = 20'000;
constexpr int64_t kUsualDiskBytesPerMs = 300'000;

milliseconds longest_step(const RunState& state) {
  return milliseconds(state.longest_step_us / 1000);
}

}  // namespace

milliseconds stop_time(const RunState& state, milliseconds least) {
  if (state.steps_done == 0) return least;
  const milliseconds step = kStepsOfPatience * longest_step(state) + kStepSlack;
  const milliseconds save = state.saving
                                ? milliseconds(state.saving_us / 1000) + kSaveSlack +
                                      milliseconds(state.weight_bytes / kSlowDiskBytesPerMs)
                                : milliseconds(0);
  return std::max(least, step + save);
}

milliseconds expected_stop_time(const RunState& state) {
  return longest_step(state) + milliseconds(state.weight_bytes / kUsualDiskBytesPerMs);
}

}  // namespace tessera
