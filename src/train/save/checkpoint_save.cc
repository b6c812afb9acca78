#include "train/save/checkpoint_save.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "train/control.h"

namespace tessera {
namespace {

// What a disk may refuse, as text; empty: it did not.
std::string failure_of_disk(const std::function<void()>& action) {
  try {
    action();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

WrittenShards gather_shards(Communicator& control, const std::string& ack,
                            const std::string& failure) {
  WrittenShards written;
  const std::string mine = failure.empty() ? ack : "!" + failure;
  const std::vector<std::string> all = exchange_texts(control, mine);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].starts_with('!')) {
      written.acks.push_back(parse_ack(all[rank]));
    } else if (written.failure.empty()) {
      written.failure = fmt::format("rank {}: {}", rank, all[rank].substr(1));
    }
  }
  return written;
}

std::string commit_or_abandon(FileOps& files, const SavePlan& plan, const SaveId& id, int64_t step,
                              const WrittenShards& written, const nlohmann::json& state) {
  std::string failure = written.failure;
  if (failure.empty()) {
    failure = failure_of_disk([&] { commit_save(files, plan, id, step, written.acks, state); });
  }
  // The disk may refuse that too; the next start collects it.
  if (!failure.empty()) (void)failure_of_disk([&] { abandon_save(files, id); });
  return failure;
}

std::string save_checkpoint(FileOps& files, const CheckpointPlan& plan, const SaveId& id,
                            int64_t step, const nlohmann::json& state, const Executor& executor,
                            Communicator& control) {
  const bool commits = control.rank() == 0;
  const auto on_rank_zero = [&](std::function<void()> action) {
    return commits ? std::move(action) : nullptr;
  };
  std::string failure;
  run_with_signs_of_life(
      control, on_rank_zero([&] { failure = failure_of_disk([&] { begin_save(files, id); }); }));
  failure = text_of_rank_zero(control, failure);
  if (!failure.empty()) return failure;
  std::string ack;
  run_with_signs_of_life(control, [&] {
    failure = failure_of_disk([&] {
      ack = text_of(write_shard(files, plan.save, id, step, control.rank(),
                                state_source(executor, plan.layout, plan.save)));
    });
  });
  const WrittenShards written = gather_shards(control, ack, failure);
  run_with_signs_of_life(control, on_rank_zero([&] {
                           failure = commit_or_abandon(files, plan.save, id, step, written, state);
                         }));
  return text_of_rank_zero(control, failure);
}

}  // namespace tessera
