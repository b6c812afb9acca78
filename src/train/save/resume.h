// Where a run goes on: which checkpoint, and whether it is one of this run.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "checkpoint/store/checkpoint_folder.h"
#include "checkpoint/store/saves.h"
#include "spec/run_spec.h"

namespace tessera {

struct ResumePoint {
  std::string dir;  // that holds the checkpoint
  CheckpointFolder checkpoint;
  bool same_place = false;  // it is of the folder that the run saves to
  bool named = false;       // it alone was asked for: no older one may stand in for it
  [[nodiscard]] int64_t step() const { return checkpoint.step(); }
};

// Which checkpoints a run may go on from.
struct ResumeRules {
  bool allow_unchecked = false;
  // By the folder that holds them (ResumePoint::dir) and by their own: what was found damaged when
  // its data was read.
  std::map<std::string, std::map<std::string, Error, std::less<>>> damaged = {};
  [[nodiscard]] LoadRules rules_in(const std::string& dir) const;
};

// A step's folder, one of checkpoints, or a run directory: that checkpoint, or the newest good one,
// after quick_check(). What cannot be used and why goes to `rejected`. Throws Error.
ResumePoint open_checkpoint_at(const std::string& path,
                               const std::function<void(const std::string&)>& rejected,
                               const ResumeRules& rules = {});

// The hash of the tokenizer.json in a folder; empty: there is none.
std::string tokenizer_hash_in(const std::string& folder);

// `resume`: "auto": the newest good one of `own_dir`, nothing where it holds none; else a
// checkpoint or a folder of them, which must be there. What cannot be used and why goes to `note`.
// Throws Error as checkpoint_folder.h and newest_good() say, and refuses (ExitCode::kUsage, with
// both values) a checkpoint of another model, vocabulary, seed or batch.
std::optional<ResumePoint> find_resume_point(const std::string& resume, const std::string& own_dir,
                                             const RunSpec& spec,
                                             const std::function<void(const std::string&)>& note,
                                             const ResumeRules& rules = {});

// What state.json has of a run that can be held against its run file.
nlohmann::json identity_of_run(const RunSpec& spec);

}  // namespace tessera
