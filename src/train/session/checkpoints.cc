#include "train/session/checkpoints.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/store/saves.h"
#include "train/session/control.h"

namespace tessera {

std::string checkpoint_dir(const RunSpec& spec, const std::string& run_dir) {
  return spec.checkpoint.dir.empty() ? run_dir + "/checkpoints" : spec.checkpoint.dir;
}

Checkpoints::Checkpoints(const RunSpec& spec, const StepGraph& step, const Executor& executor,
                         Communicator& control, Note note)
    : spec_(spec), executor_(executor), control_(control), note_(std::move(note)), plan_(step) {}

void Checkpoints::begin(const std::string& dir, const SaveId& id, bool goes_on) {
  if (control_.rank() == 0) {
    files_ = real_files(dir, /*make=*/true);
    for (const StoredSave& save : list_saves(*files_)) {
      require_config(goes_on || !save.committed,
                     "'{}' holds checkpoints of another run ({}): --resume auto goes on from them, "
                     "or set checkpoint.dir or logging.run_dir",
                     dir, save.folder);
    }
    // Other runs may share a folder that was named; in that of the run directory nobody else works.
    const RecoveryReport report = recover_saves(
        *files_, {.run = id.run, .generation = id.generation, .all = spec_.checkpoint.dir.empty()});
    for (const std::string& folder : report.adopted) {
      note_(fmt::format("{}/{}: a save that was cut off after its last byte was finished", dir,
                        folder));
    }
  }
  const std::string place = text_of_rank_zero(control_, dir);
  id_ = {text_of_rank_zero(control_, id.run), id.generation, ""};
  id_.generation = static_cast<uint64_t>(
      largest_of_ranks(control_, control_.rank() == 0 ? static_cast<int64_t>(id.generation) : 0));
  if (control_.rank() != 0) files_ = real_files(place);
  since_last_ = HostTimer();
}

bool Checkpoints::due_after(int64_t step) {
  const CheckpointSpec& checkpoint = spec_.checkpoint;
  if (checkpoint.every > 0 && step % checkpoint.every == 0) return true;
  if (checkpoint.every_minutes <= 0) return false;
  const bool mine = control_.rank() == 0 && since_last_.seconds() >= 60 * checkpoint.every_minutes;
  return largest_of_ranks(control_, mine ? 1 : 0) != 0;
}

bool Checkpoints::save(int64_t step, const nlohmann::json& state) {
  const HostTimer timer;
  id_.save = fmt::format("s{}_{}", step, ++tries_);  // a step may be tried again
  failure_ = save_checkpoint(*files_, plan_, id_, step, state, executor_, control_);
  since_last_ = HostTimer();
  if (failure_.empty()) ++saves_;
  run_with_signs_of_life(control_, control_.rank() == 0 && failure_.empty()
                                       ? std::function<void()>([this] { retire_old(); })
                                       : nullptr);
  seconds_ += timer.seconds();
  if (!failure_.empty() && control_.rank() == 0) {
    note_(
        fmt::format("no checkpoint of step {}: {}; the run goes on, and older ones are as they "
                    "were",
                    step, failure_));
  }
  return failure_.empty();
}

// What cannot be removed costs room, never the run.
void Checkpoints::retire_old() const {
  try {
    (void)apply_retention(*files_, {spec_.checkpoint.keep, spec_.checkpoint.keep_every});
  } catch (const Error& error) {
    note_(fmt::format("old checkpoints stay: {}", error.what()));
  }
}

}  // namespace tessera
