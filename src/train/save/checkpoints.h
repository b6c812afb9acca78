// The checkpoints that a run makes: when one is due, how it is made, which stay.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "spec/run_spec.h"
#include "train/save/background_save.h"
#include "train/save/checkpoint_save.h"
#include "train/save/snapshots.h"
#include "train/session_clock.h"

namespace tessera {

// checkpoint.dir, or "checkpoints" in the run directory.
std::string checkpoint_dir(const RunSpec& spec, const std::string& run_dir);

// What became of a save, for rank 0 to tell.
struct SaveNews {
  enum class Kind : uint8_t { kSaved, kFailed, kSkipped };
  Kind kind = Kind::kSaved;
  int64_t step = 0;
  std::string reason = {};   // why there is no new checkpoint
  double write_seconds = 0;  // of the rank that took longest
  double seconds = 0;        // from the step to COMMIT
};

class Checkpoints {
 public:
  struct Listener {
    std::function<void(const std::string&)> note;  // on rank 0
    std::function<void(int64_t step)> begin;       // on every rank, before it copies its part
    std::function<void(int64_t step)> snapshot;    // likewise, where it is for memory alone
    std::function<void(const SaveNews&)> news;     // on every rank
    std::function<void()> wait;                    // again and again while a disk is waited for
  };
  using State = std::function<nlohmann::json()>;
  // real_files(), but for tests.
  using OpenFiles = std::function<std::shared_ptr<FileOps>(const std::string& dir, bool make)>;

  // All must outlive it. `snapshots`: also in memory, every checkpoint.memory_every steps; null:
  // not.
  Checkpoints(const RunSpec& spec, const StepGraph& step, Executor& executor, Communicator& control,
              Listener listener, OpenFiles open = real_files, Snapshots* snapshots = nullptr);

  // All ranks: makes the folder `dir`, finishes or removes what an earlier process left half-way.
  // `id`: whose the saves are. Rank 0 throws Error where the folder cannot be had, or where it
  // holds checkpoints that this run does not go on from (`goes_on`): they would be replaced.
  void begin(const std::string& dir, const SaveId& id, bool goes_on);

  // All ranks, after every step. A save is made where one is due: beside the steps to come, or
  // before this returns (checkpoint.async = false). While one is still being written, the next is
  // left out. A failure costs this checkpoint alone. `state` is asked on rank 0.
  void after_step(int64_t step, const State& state);
  // All ranks, after the last step: when this returns that step is saved, or that it is not was
  // said. Waits for disks as long as they get on.
  void at_end(int64_t step, const State& state);
  // All ranks: waits for a save that is under way.
  void finish();

  [[nodiscard]] bool waits() const { return !background_; }  // steps do, for every save
  [[nodiscard]] int64_t saves() const { return saves_; }
  [[nodiscard]] int64_t snapshots() const {
    return snapshots_ != nullptr ? snapshots_->taken() : 0;
  }
  [[nodiscard]] double seconds() const { return seconds_; }  // that steps had to wait for saves
  [[nodiscard]] double write_seconds() const { return write_seconds_; }  // of all saves
  // Host memory that is taken for saves from the beginning of the run to its end.
  [[nodiscard]] int64_t staging_bytes() const {
    if (snapshots_ != nullptr) return snapshots_->bytes();
    return background_ ? background_->staging_bytes() : 0;
  }

 private:
  [[nodiscard]] bool due_after(int64_t step);
  void save(int64_t step, const State& state);
  [[nodiscard]] bool snapshot_due_after(int64_t step) const;
  size_t take_snapshot(int64_t step, const nlohmann::json& state);
  void save_now(int64_t step, const nlohmann::json& state);
  void tell(const SaveNews& news);
  void note(const SaveNews& news) const;
  void tell(const std::optional<FinishedSave>& finished);
  [[nodiscard]] BackgroundSave::AfterCommit retention(int64_t step) const;

  const RunSpec& spec_;
  Executor& executor_;
  Communicator& control_;
  Listener listener_;
  OpenFiles open_;
  Snapshots* snapshots_;
  std::shared_ptr<const CheckpointPlan> plan_;
  std::shared_ptr<FileOps> files_;
  std::optional<BackgroundSave> background_;  // checkpoint.async
  SaveId id_;
  HostTimer since_last_;
  int64_t tries_ = 0;
  int64_t begun_step_ = -1;     // of the last save that was begun
  int64_t snapshot_step_ = -1;  // of the last snapshot
  int64_t saves_ = 0;
  int64_t skipped_ = 0;
  double seconds_ = 0;
  double write_seconds_ = 0;
};

}  // namespace tessera
