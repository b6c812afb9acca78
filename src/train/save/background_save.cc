#include "train/save/background_save.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "train/control.h"

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kSignOfLife{200};
constexpr int64_t kSlowDiskBytesPerMs = 20'000;

// How it stands with a rank: the largest of all says how it stands with the save.
enum Standing : int64_t { kDone = 0, kBusy = 1, kSilent = 2 };

}  // namespace

BackgroundSave::BackgroundSave(std::shared_ptr<FileOps> files,
                               std::shared_ptr<const CheckpointPlan> plan, Executor& executor,
                               Communicator& control, std::shared_ptr<Staging> staging)
    : plan_(std::move(plan)),
      staging_(staging ? std::move(staging)
                       : std::make_shared<Staging>(
                             executor.rank().device(),
                             lay_out_staging(plan_->layout, plan_->save, executor.program().rank))),
      executor_(executor),
      control_(control),
      task_(std::move(files)) {}

void BackgroundSave::start(const SaveId& id, int64_t step, const nlohmann::json& state,
                           AfterCommit after_commit, std::optional<size_t> copy) {
  TESSERA_CHECK(!in_flight() && !given_up_, "the save of step {} is under way", step_);
  copy_ = copy.value_or(0);
  if (!copy) staging_->fill(executor_);
  timer_ = HostTimer();
  id_ = id;
  step_ = step;
  state_ = control_.rank() == 0 ? state.dump() : "";
  after_commit_ = std::move(after_commit);
  phase_ = Phase::kWriting;
  task_.start([plan = plan_, staging = staging_, from = copy_, id, step,
               rank = control_.rank()](FileOps& disk) {
    join_save(disk, id);
    return text_of(write_shard(disk, plan->save, id, step, rank, staging->source(from),
                               staging->write_buffer()));
  });
}

std::optional<size_t> BackgroundSave::busy_copy() const {
  // One that was given up may still be at it.
  return in_flight() || given_up_ ? std::optional(copy_) : std::nullopt;
}

std::optional<FinishedSave> BackgroundSave::advance() {
  if (!in_flight()) return std::nullopt;
  if (largest_of_ranks(control_, task_.busy() ? kBusy : kDone) != kDone) return std::nullopt;
  if (phase_ == Phase::kWriting) {
    const DiskTask::Result mine = task_.take();
    const auto slowest = largest_of_ranks(control_, static_cast<int64_t>(mine.seconds * 1e6));
    write_seconds_ = static_cast<double>(slowest) * 1e-6;
    commit(gather_shards(control_, mine.text, mine.failure));
    phase_ = Phase::kCommitting;
    return std::nullopt;
  }
  DiskTask::Result result;
  if (control_.rank() == 0) result = task_.take();
  // The first line says why it failed, the rest is for rank 0.
  const size_t cut = result.text.find('\n');
  const std::string failure = result.failure.empty() ? result.text.substr(0, cut) : result.failure;
  FinishedSave finished = ended(text_of_rank_zero(control_, failure));
  if (cut != std::string::npos) finished.note = result.text.substr(cut + 1);
  return finished;
}

void BackgroundSave::commit(const WrittenShards& written) {
  if (control_.rank() != 0) return;
  task_.start([plan = plan_, id = id_, step = step_, state = state_, written,
               after = after_commit_](FileOps& disk) {
    std::string failure =
        commit_or_abandon(disk, plan->save, id, step, written, nlohmann::json::parse(state));
    if (!failure.empty() || !after) return failure + "\n";
    return "\n" + after(disk);
  });
}

FinishedSave BackgroundSave::ended(std::string failure) {
  phase_ = Phase::kNone;
  return {.step = step_,
          .failure = std::move(failure),
          .write_seconds = write_seconds_,
          .seconds = timer_.seconds()};
}

std::optional<FinishedSave> BackgroundSave::finish(const std::function<void()>& on_wait,
                                                   std::chrono::milliseconds silence) {
  const double patience =
      static_cast<double>(
          (silence + std::chrono::milliseconds(staging_->bytes() / kSlowDiskBytesPerMs)).count()) *
      1e-3;
  HostTimer silent;
  int64_t changes = -1;
  while (in_flight()) {
    const bool busy = !task_.wait_for(kSignOfLife);
    if (task_.changes() != changes) silent = HostTimer();
    changes = task_.changes();
    const bool is_silent = busy && silent.seconds() > patience;
    const int64_t all = largest_of_ranks(control_, is_silent ? kSilent : busy ? kBusy : kDone);
    if (on_wait) on_wait();
    if (all == kSilent) {
      return give_up(is_silent ? fmt::format("the disk has done nothing for {:.0f} s", patience)
                               : "");
    }
    if (all == kDone) {
      if (std::optional<FinishedSave> finished = advance()) return finished;
    }
  }
  return std::nullopt;
}

FinishedSave BackgroundSave::give_up(const std::string& why) {
  given_up_ = true;
  std::string failure;
  const std::vector<std::string> all = exchange_texts(control_, why);
  for (size_t rank = 0; rank < all.size() && failure.empty(); ++rank) {
    if (!all[rank].empty()) failure = fmt::format("rank {}: {}", rank, all[rank]);
  }
  return ended(std::move(failure));
}

}  // namespace tessera
