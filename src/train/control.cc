#include "train/control.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "spec/run_file/run_file.h"
#include "train/machine_defaults.h"

namespace tessera {
namespace {

// "train.steps is 5 on rank 1 but 6 on rank 0", or nothing.
std::string first_difference(const nlohmann::ordered_json& mine,
                             const nlohmann::ordered_json& theirs, int rank) {
  const nlohmann::ordered_json flat_mine = mine.flatten();
  const nlohmann::ordered_json flat_theirs = theirs.flatten();
  for (const auto& [path, value] : flat_theirs.items()) {
    const auto found = flat_mine.find(path);
    if (found != flat_mine.end() && *found == value) continue;
    std::string key = path.substr(1);
    std::replace(key.begin(), key.end(), '/', '.');
    return fmt::format("{} is {} on rank {} but {} on rank 0", key,
                       found == flat_mine.end() ? "missing" : found->dump(), rank, value.dump());
  }
  return "";
}

}  // namespace

std::string text_of_rank_zero(Communicator& control, std::string mine) {
  auto size = static_cast<int64_t>(mine.size());
  control.broadcast(&size, 1, DType::kI64, 0);
  mine.resize(static_cast<size_t>(size));
  if (size > 0) control.broadcast(mine.data(), size, DType::kU8, 0);
  return mine;
}

int64_t largest_of_ranks(Communicator& control, int64_t mine) {
  control.all_reduce(&mine, 1, DType::kI64, 0, ReduceOp::kMax);
  return mine;
}

void run_with_signs_of_life(Communicator& control, const std::function<void()>& action) {
  constexpr std::chrono::milliseconds kSignOfLife{200};
  std::future<void> done;
  if (action) done = std::async(std::launch::async, action);
  bool busy = true;
  while (busy) {
    const bool mine = done.valid() && done.wait_for(kSignOfLife) == std::future_status::timeout;
    busy = largest_of_ranks(control, mine ? 1 : 0) != 0;
  }
  if (done.valid()) done.get();
}

RunSpec agree_on_spec(Communicator& control, RunSpec mine, int ranks_on_host) {
  if (control.rank() == 0) use_machine_defaults(mine, ranks_on_host);
  const auto theirs =
      nlohmann::ordered_json::parse(text_of_rank_zero(control, to_json(mine).dump()));
  const RunSpec decided = run_spec_from_json(theirs);
  if (mine.train.threads == 0) mine.train.threads = decided.train.threads;
  if (mine.cluster.memory_gib == 0) mine.cluster.memory_gib = decided.cluster.memory_gib;
  if (mine.logging.run_dir.empty()) mine.logging.run_dir = decided.logging.run_dir;
  const std::string difference = first_difference(to_json(mine), theirs, control.rank());
  require_config(difference.empty(), "{}: start every rank with the same run file and flags",
                 difference);
  return mine;
}

}  // namespace tessera
