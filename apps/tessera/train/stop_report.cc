#include "train/stop_report.h"

#include <fmt/format.h>

#include <csignal>

#include "base/text/text.h"
#include "cli/interrupt.h"
#include "launch/stop_time.h"

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kWorthSaying{500};

std::string way_back(const RunState& state) {
  if (state.checkpointed()) return ", and --resume auto goes on from its checkpoint";
  if (state.checkpoint_step == 0) return "";
  return fmt::format(", and --resume auto goes on after step {}", state.checkpoint_step);
}

}  // namespace

std::string finishing_text(const RunState& state) {
  const std::chrono::milliseconds time = expected_stop_time(state);
  if (state.steps_done == 0 || time < kWorthSaying) return "";
  const std::string what = state.saving
                               ? fmt::format("writing the weights of step {}", state.steps_done)
                               : fmt::format("finishing step {}", state.steps_done + 1);
  return fmt::format("{}, about {} s; ^C again ends at once", what,
                     std::chrono::ceil<std::chrono::seconds>(time).count());
}

std::string stopped_text(int signal, const RunState& state, const std::string& run_dir) {
  if (signal == SIGPIPE) return "";
  const std::string who = describe_stop(signal);
  if (state.saved_step > 0) {
    return fmt::format("stopped by {} after step {}; its weights are in {}{}", who,
                       state.saved_step, run_dir, way_back(state));
  }
  if (state.saved_step < 0) {
    return fmt::format(
        "stopped by {} after step {}; its weights are not in {}, for the reason above{}", who,
        state.steps_done, run_dir, way_back(state));
  }
  if (state.steps_done == 0) {
    return fmt::format("stopped by {} before the first step was done; no weights were saved", who);
  }
  if (state.checkpoint_step > 0) {
    return fmt::format("stopped by {} after step {}; its weights were not saved in {}{}", who,
                       state.steps_done, run_dir, way_back(state));
  }
  return fmt::format(
      "stopped by {} after step {}; no weights were saved in {}, the work of {} is lost (--grace "
      "gives the end more time)",
      who, state.steps_done, run_dir, count_of(state.steps_done, "step"));
}

}  // namespace tessera
