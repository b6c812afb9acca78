// A save beside the steps: every rank copies its part and goes on; a thread of each writes the
// copy; rank 0 commits once all have. What has happened meanwhile ranks tell each other between
// steps, in one number, so that no step waits for a disk.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "train/save/checkpoint_save.h"
#include "train/save/disk_task.h"
#include "train/session_clock.h"
#include "train/state/staging.h"

namespace tessera {

struct FinishedSave {
  int64_t step = 0;
  std::string failure = {};  // on every rank the same, naming the rank; empty: it is there
  std::string note = {};     // what `after_commit` returned; rank 0 only
  double write_seconds = 0;  // of the rank that took longest
  double seconds = 0;        // from the copy to where all ranks knew
};

// All ranks of the control group make the same calls between steps.
class BackgroundSave {
 public:
  // Takes the memory of the copy, unless the copies are made in `staging` by somebody else.
  // `executor` and `control` must outlive it.
  BackgroundSave(std::shared_ptr<FileOps> files, std::shared_ptr<const CheckpointPlan> plan,
                 Executor& executor, Communicator& control,
                 std::shared_ptr<Staging> staging = nullptr);

  [[nodiscard]] int64_t staging_bytes() const { return staging_->bytes(); }
  [[nodiscard]] bool in_flight() const { return phase_ != Phase::kNone; }
  [[nodiscard]] int64_t step() const { return step_; }  // of the one in flight

  // Copies, or takes the copy that is at `copy`, and has it written from now on. None may be in
  // flight. `state` and `after_commit`
  // count on rank 0; the latter runs on the thread of the disk, once the checkpoint is there, and
  // must own what it uses.
  using AfterCommit = std::function<std::string(FileOps& files)>;
  void start(const SaveId& id, int64_t step, const nlohmann::json& state, AfterCommit after_commit,
             std::optional<size_t> copy = std::nullopt);
  // The copy that is being written, which must stay as it is.
  [[nodiscard]] std::optional<size_t> busy_copy() const;

  // Whether the save in flight has come to an end. Never waits for a disk.
  [[nodiscard]] std::optional<FinishedSave> advance();

  // Waits for the save in flight for as long as the disks of all ranks get on: one that does
  // nothing for `silence`, and for the time that a slow disk takes for the copy, is given up, and
  // named; after that no other save can be started. `on_wait` is called again and again.
  [[nodiscard]] std::optional<FinishedSave> finish(
      const std::function<void()>& on_wait,
      std::chrono::milliseconds silence = std::chrono::minutes(2));
  [[nodiscard]] bool given_up() const { return given_up_; }

 private:
  enum class Phase : uint8_t { kNone, kWriting, kCommitting };

  void commit(const WrittenShards& written);
  [[nodiscard]] FinishedSave ended(std::string failure);
  [[nodiscard]] FinishedSave give_up(const std::string& why);

  std::shared_ptr<const CheckpointPlan> plan_;
  std::shared_ptr<Staging> staging_;
  const Executor& executor_;
  Communicator& control_;
  DiskTask task_;
  Phase phase_ = Phase::kNone;
  bool given_up_ = false;
  SaveId id_;
  int64_t step_ = 0;
  size_t copy_ = 0;
  HostTimer timer_;  // since the copy
  double write_seconds_ = 0;
  std::string state_;  // rank 0 only, as text
  AfterCommit after_commit_;
};

}  // namespace tessera
