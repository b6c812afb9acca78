#include "train/weights/final_weights.h"

#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "train/control.h"

namespace tessera {
namespace {

// A new folder for the weights of this process.
std::string rescue_path(const FinalWeights& weights) {
  const std::filesystem::path folder =
      std::filesystem::path(weights.rescue_dir) / fmt::format("tessera-rescued-{}", ::getpid());
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);  // writing says what is wrong
  return folder / std::filesystem::path(weights.path).filename();
}

// Empty, or why they are not where they belong.
std::string try_save(const FinalWeights& weights, const StepGraph& step, const Executor& executor,
                     Communicator& control) {
  const bool writes = control.rank() == 0;
  const std::string refused =
      text_of_rank_zero(control, writes && weights.make_room ? weights.make_room() : "");
  return refused.empty()
             ? try_save_weights(weights.path, step, executor, control, weights.on_growth)
             : refused;
}

}  // namespace

std::string save_or_rescue(const FinalWeights& weights, const StepGraph& step,
                           const Executor& executor, Communicator& control) {
  if (try_save(weights, step, executor, control).empty()) return "";
  const std::string why = try_save(weights, step, executor, control);
  if (why.empty()) return "";
  const std::string lost = fmt::format("{}; the weights of step {} are lost", why, weights.step);
  if (weights.rescue_dir.empty()) return lost;
  const std::string place =
      text_of_rank_zero(control, control.rank() == 0 ? rescue_path(weights) : "");
  const std::string why_again = try_save_weights(place, step, executor, control, weights.on_growth);
  if (!why_again.empty()) return fmt::format("{} ({})", lost, why_again);
  return fmt::format("{}; the weights of step {} are in '{}' instead: move them from there", why,
                     weights.step, place);
}

}  // namespace tessera
