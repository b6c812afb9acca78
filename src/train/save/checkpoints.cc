#include "train/save/checkpoints.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/text.h"
#include "checkpoint/store/saves.h"
#include "train/control.h"

namespace tessera {
namespace {

bool is_power_of_ten(int64_t number) {
  while (number > 1 && number % 10 == 0) number /= 10;
  return number == 1;
}

}  // namespace

std::string checkpoint_dir(const RunSpec& spec, const std::string& run_dir) {
  return spec.checkpoint.dir.empty() ? run_dir + "/checkpoints" : spec.checkpoint.dir;
}

Checkpoints::Checkpoints(const RunSpec& spec, const StepGraph& step, Executor& executor,
                         Communicator& control, Listener listener, OpenFiles open,
                         Snapshots* snapshots)
    : spec_(spec),
      executor_(executor),
      control_(control),
      listener_(std::move(listener)),
      open_(std::move(open)),
      snapshots_(snapshots),
      plan_(snapshots != nullptr ? snapshots->plan() : std::make_shared<CheckpointPlan>(step)) {}

void Checkpoints::begin(const std::string& dir, const SaveId& id, bool goes_on) {
  if (control_.rank() == 0) {
    files_ = open_(dir, /*make=*/true);
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
      listener_.note(fmt::format("{}/{}: a save that was cut off after its last byte was finished",
                                 dir, folder));
    }
  }
  const std::string place = text_of_rank_zero(control_, dir);
  id_ = {text_of_rank_zero(control_, id.run), id.generation, ""};
  id_.generation = static_cast<uint64_t>(
      largest_of_ranks(control_, control_.rank() == 0 ? static_cast<int64_t>(id.generation) : 0));
  if (control_.rank() != 0) files_ = open_(place, /*make=*/false);
  if (saves_beside_steps(spec_.checkpoint, plan_->layout, plan_->save)) {
    background_.emplace(files_, plan_, executor_, control_,
                        snapshots_ != nullptr ? snapshots_->staging() : nullptr);
  }
  if (spec_.checkpoint.async && waits() && control_.rank() == 0) {
    listener_.note(
        fmt::format("steps wait while checkpoints are written: a copy would take more than "
                    "checkpoint.memory_gib = {}",
                    spec_.checkpoint.memory_gib));
  }
  since_last_ = HostTimer();
}

bool Checkpoints::due_after(int64_t step) {
  const CheckpointSpec& checkpoint = spec_.checkpoint;
  if (checkpoint.every > 0 && step % checkpoint.every == 0) return true;
  if (checkpoint.every_minutes <= 0) return false;
  const bool mine = control_.rank() == 0 && since_last_.seconds() >= 60 * checkpoint.every_minutes;
  return largest_of_ranks(control_, mine ? 1 : 0) != 0;
}

void Checkpoints::after_step(int64_t step, const State& state) {
  const HostTimer timer;
  if (background_) tell(background_->advance());
  // After the last step at_end() has time to wait for the save before.
  const bool waits = background_ && background_->in_flight() && step == spec_.train.steps;
  if (due_after(step) && !waits) save(step, state);
  if (snapshot_due_after(step) && snapshot_step_ != step) {
    listener_.snapshot(step);
    (void)take_snapshot(step, control_.rank() == 0 ? state() : nlohmann::json());
  }
  seconds_ += timer.seconds();
}

// Nobody goes on after the last step.
bool Checkpoints::snapshot_due_after(int64_t step) const {
  return snapshots_ != nullptr && step % spec_.checkpoint.memory_every == 0 &&
         step < spec_.train.steps;
}

size_t Checkpoints::take_snapshot(int64_t step, const nlohmann::json& state) {
  snapshot_step_ = step;
  const nlohmann::json note = {{"run", id_.run}, {"generation", id_.generation}, {"state", state}};
  return snapshots_->take(step, note.dump(), background_ ? background_->busy_copy() : std::nullopt);
}

void Checkpoints::at_end(int64_t step, const State& state) {
  const HostTimer timer;
  finish();
  if (begun_step_ != step) {
    save(step, state);
    finish();
  }
  seconds_ += timer.seconds();
}

void Checkpoints::finish() {
  if (background_) tell(background_->finish(listener_.wait));
}

void Checkpoints::save(int64_t step, const State& state) {
  if (background_ && background_->in_flight()) {
    return tell(
        {.kind = SaveNews::Kind::kSkipped,
         .step = step,
         .reason = fmt::format("the save of step {} is still being written", background_->step())});
  }
  if (background_ && background_->given_up()) {
    return tell(
        {.kind = SaveNews::Kind::kFailed,
         .step = step,
         .reason = fmt::format("that of step {} has not come to an end", background_->step())});
  }
  id_.save = fmt::format("s{}_{}", step, ++tries_);  // a step may be tried again
  since_last_ = HostTimer();
  begun_step_ = step;
  listener_.begin(step);
  const nlohmann::json mine = control_.rank() == 0 ? state() : nlohmann::json();
  if (!background_) return save_now(step, mine);
  std::optional<size_t> copy;
  if (snapshots_ != nullptr) copy = take_snapshot(step, mine);
  background_->start(id_, step, mine, retention(step), copy);
}

void Checkpoints::save_now(int64_t step, const nlohmann::json& state) {
  const HostTimer timer;
  FinishedSave saved{.step = step};
  saved.failure = save_checkpoint(*files_, *plan_, id_, step, state, executor_, control_);
  saved.write_seconds = timer.seconds();
  const bool retires = control_.rank() == 0 && saved.failure.empty();
  run_with_signs_of_life(
      control_,
      retires ? std::function<void()>([&] { saved.note = retention(step)(*files_); }) : nullptr);
  saved.seconds = timer.seconds();
  tell(saved);
}

void Checkpoints::tell(const std::optional<FinishedSave>& finished) {
  if (!finished) return;
  if (!finished->note.empty()) listener_.note(finished->note);
  tell({.kind = finished->failure.empty() ? SaveNews::Kind::kSaved : SaveNews::Kind::kFailed,
        .step = finished->step,
        .reason = finished->failure,
        .write_seconds = finished->write_seconds,
        .seconds = finished->seconds});
}

void Checkpoints::tell(const SaveNews& news) {
  if (news.kind == SaveNews::Kind::kSaved) ++saves_;
  write_seconds_ += news.write_seconds;
  if (news.kind == SaveNews::Kind::kSkipped) ++skipped_;
  if (control_.rank() == 0) note(news);
  listener_.news(news);
}

// Saves that are due too often for the disk are left out again and again: the news has each, people
// hear of the first, the tenth, the hundredth.
void Checkpoints::note(const SaveNews& news) const {
  if (news.kind == SaveNews::Kind::kSaved) return;
  const bool again = news.kind == SaveNews::Kind::kSkipped && skipped_ > 1;
  if (!again) {
    return listener_.note(fmt::format(
        "no checkpoint of step {}: {}; the run goes on, and older ones are as they were", news.step,
        news.reason));
  }
  if (!is_power_of_ten(skipped_)) return;
  listener_.note(
      fmt::format("{} were left out so far, each because one before it was still being written: "
                  "they are due more often than the disk takes them (checkpoint.every, "
                  "every_minutes); events.jsonl has all",
                  count_of(skipped_, "checkpoint")));
}

// What cannot be removed costs room, never the run.
BackgroundSave::AfterCommit Checkpoints::retention(int64_t step) const {
  const Retention rule{spec_.checkpoint.keep, spec_.checkpoint.keep_every, step};
  return [rule](FileOps& files) -> std::string {
    try {
      (void)apply_retention(files, rule);
      return "";
    } catch (const Error& error) {
      return fmt::format("old checkpoints stay: {}", error.what());
    }
  };
}

}  // namespace tessera
