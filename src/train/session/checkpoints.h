// The checkpoints that a run makes: when one is due, how it is made, which stay.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "spec/run_spec.h"
#include "train/session/checkpoint_save.h"
#include "train/session/session_clock.h"

namespace tessera {

// checkpoint.dir, or "checkpoints" in the run directory.
std::string checkpoint_dir(const RunSpec& spec, const std::string& run_dir);

class Checkpoints {
 public:
  using Note = std::function<void(const std::string&)>;

  // All must outlive it. `note` is called on rank 0.
  Checkpoints(const RunSpec& spec, const StepGraph& step, const Executor& executor,
              Communicator& control, Note note);

  // All ranks: makes the folder `dir`, finishes or removes what an earlier process left half-way.
  // `id`: whose the saves are. Rank 0 throws Error where the folder cannot be had, or where it
  // holds checkpoints that this run does not go on from (`goes_on`): they would be replaced.
  void begin(const std::string& dir, const SaveId& id, bool goes_on);
  // All ranks: whether step `step` ends with a save.
  [[nodiscard]] bool due_after(int64_t step);
  // All ranks, between steps. A failure is noted and costs this checkpoint alone; returns whether
  // there is a new one. `state` counts on rank 0.
  bool save(int64_t step, const nlohmann::json& state);

  [[nodiscard]] int64_t saves() const { return saves_; }
  [[nodiscard]] double seconds() const { return seconds_; }              // of all saves
  [[nodiscard]] const std::string& failure() const { return failure_; }  // of the last; empty: none

 private:
  void retire_old() const;

  const RunSpec& spec_;
  const Executor& executor_;
  Communicator& control_;
  Note note_;
  CheckpointPlan plan_;
  std::unique_ptr<FileOps> files_;
  SaveId id_;
  HostTimer since_last_;
  int64_t tries_ = 0;
  int64_t saves_ = 0;
  double seconds_ = 0;
  std::string failure_;
};

}  // namespace tessera
