#include "base/error.h"
#include "checkpoint/store/watched_files.h"
#include "launch/rendezvous/token.h"
#include "spec/run_file/run_file.h"
#include "train/control.h"
#include "train/save/resume.h"
#include "train/session/session_of_rank.h"
#include "train/weights/final_weights.h"

namespace tessera {

// Where a fault is armed, it is met before every change of a file.
std::shared_ptr<FileOps> RankSession::open_files(const std::string& dir, bool make) {
  struct Watched {
    std::unique_ptr<FileOps> files;
    WatchedFiles watched;
  };
  std::unique_ptr<FileOps> files = real_files(dir, make);
  if (!failpoints_.armed("save.", -1)) return files;
  FileOps& real = *files;
  const auto both = std::make_shared<Watched>(
      Watched{std::move(files), WatchedFiles(real, [this](const char* kind, int64_t) {
                failpoints_.pass("save.change");
                failpoints_.pass(std::string("save.") + kind);
              })});
  return {both, &both->watched};
}

void RankSession::begin_checkpoints() {
  const bool own = !output_.has_value() || output_->resumes_from_memory() ||
                   !output_->resumed().has_value() || output_->resumed()->same_place;
  if (save_id_.run.empty() || !own) save_id_ = {random_token(), 1, ""};
  checkpoints_.emplace(
      spec_, job_.step, executor_, control_,
      Checkpoints::Listener{.note = [this](const std::string& text) { output_->note(text); },
                            .begin = [this](int64_t step) { begin_save(step); },
                            .snapshot = [this](int64_t step) { begin_snapshot(step); },
                            .news = [this](const SaveNews& news) { tell_save(news); },
                            .wait = [this] { keep_saving(); }},
      [this](const std::string& dir, bool make) { return open_files(dir, make); },
      snapshots_.has_value() ? &*snapshots_ : nullptr);
  checkpoints_->begin(checkpoint_dir(spec_, folder()), save_id_, before_ > 0 && own);
}

// What a run needs beside its tensors is a function of these: data, rates and dropout are
// functions of seed and step.
nlohmann::json RankSession::state_of(int64_t step) const {
  return {{"identity", identity_of_run(spec_)},   {"samples", step * spec_.train.global_batch},
          {"samples_hash", samples_hash_},        {"loss", final_loss_},
          {"loss_scale", scaler_.state()},        {"spike_guard", guard_.state()},
          {"mesh", to_json(spec_).at("parallel")}};
}

void RankSession::begin_save(int64_t step) {
  if (checkpoints_->waits()) state_.saving = true;
  begin_snapshot(step);
  failpoints_.pass("save.stage", step);
}

void RankSession::begin_snapshot(int64_t step) {
  // What is kept must be right: it is what a run goes on from that has found an error.
  if (options_.compare_every > 0) compare_replicas(step);
  enter(RunSection::kSave, step);
  samples_hash_ = samples_.total(control_);
}

void RankSession::tell_save(const SaveNews& news) {
  const bool saved = news.kind == SaveNews::Kind::kSaved;
  if (saved) state_.checkpoint_step = news.step;
  if (!output_.has_value()) return;
  const char* event = saved                                   ? "save"
                      : news.kind == SaveNews::Kind::kSkipped ? "save skipped"
                                                              : "save failed";
  nlohmann::ordered_json line = {{"event", event}, {"step", news.step}, {"rank", world_.rank()}};
  if (news.kind != SaveNews::Kind::kSkipped) line["seconds"] = news.seconds;
  if (!saved) line["reason"] = news.reason;
  output_->event(line);
}

// A disk that is waited for is at work: whoever waits for the run knows that from the time.
void RankSession::keep_saving() {
  state_.saving_us = static_cast<int64_t>(saving_timer_.seconds() * 1e6);
  tell_state();
}

void RankSession::save_if_due(int64_t step) {
  if (!checkpoints_.has_value()) return;
  saving_timer_ = HostTimer();
  checkpoints_->after_step(step, [&] { return state_of(step); });
  state_.saving = false;
  tell_state();
}

// The last save, and one that is still under way.
void RankSession::end_checkpoints() {
  if (!checkpoints_.has_value()) return;
  state_.saving = true;
  saving_timer_ = HostTimer();
  enter(RunSection::kSave, steps_done_);
  checkpoints_->at_end(steps_done_, [this] { return state_of(steps_done_); });
  state_.saving = false;
  tell_state();
}

// All ranks save; empty, or why the weights are not in the run directory. Never without a step:
// weights that nobody trained must not take the place of others.
std::string RankSession::save() {
  TESSERA_CHECK(steps_done_ > 0, "weights without a step");
  state_.saving = true;
  tell_state();
  const HostTimer timer;
  const auto on_growth = [&] {
    state_.saving_us = static_cast<int64_t>(timer.seconds() * 1e6);
    tell_state();
  };
  const std::string failure =
      save_or_rescue({.path = folder() + "/model.safetensors",
                      .make_room = [this] { return output_->keep_directory(); },
                      .on_growth = on_growth,
                      .rescue_dir = options_.rescue_dir,
                      .step = steps_done_},
                     job_.step, executor_, control_);
  state_.saving = false;
  state_.saved_step = failure.empty() ? steps_done_ : -1;
  tell_state();
  if (failure.empty() && output_.has_value()) output_->describe_weights();
  return failure;
}

}  // namespace tessera
