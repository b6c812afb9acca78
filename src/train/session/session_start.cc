#include <span>

#include "base/error.h"
#include "checkpoint/store/box_reader.h"
#include "train/control.h"
#include "train/report/event_log.h"
#include "train/save/load_attempt.h"
#include "train/session/session_of_rank.h"
#include "train/state/rank_state.h"
#include "train/weights/weights.h"

namespace tessera {
namespace {

constexpr const char* kInMemory = "memory";  // where a run goes on that no path names

}  // namespace

// Before the run directory is opened: how far it has come depends on what is found.
void RankSession::begin_snapshots() {
  if (options_.kept_fd < 0 || spec_.checkpoint.memory_every == 0) return;
  snapshots_.emplace(
      Snapshots::Kept{options_.kept_fd, options_.generation, options_.ranks_on_host}, spec_,
      job_.step, executor_, control_,
      [this](const char* point, int64_t step) { return failpoints_.pass(point, step); });
  found_ = snapshots_->find([this](const std::string& text) {
    if (options_.on_note) options_.on_note(text);
  });
}

// Rank 0's word, on every rank: a checkpoint as its folder and its name, kInMemory, or nothing.
std::string RankSession::place_to_go_on_from() {
  std::string place;
  if (output_.has_value() && output_->resumes_from_memory()) {
    place = kInMemory;
  } else if (output_.has_value() && output_->resumed().has_value()) {
    place = output_->resumed()->dir + "\n" + output_->resumed()->checkpoint.folder;
  }
  return text_of_rank_zero(control_, place);
}

// The weights of the beginning, or all of the state that the run goes on from. Whether the data of
// a checkpoint is what was written shows when it is read: another place is looked for until one is.
void RankSession::begin_weights() {
  for (bool loaded = false; !loaded;) {
    const std::string place = place_to_go_on_from();
    if (place.empty()) {
      load_weights(executor_, job_.step,
                   inject_into_weights(options_.inject, world_.rank(), job_.weights));
      loaded = true;
    } else if (place == kInMemory) {
      resume_from_memory();
      loaded = true;
    } else {
      loaded = resume(place);
    }
  }
  if (spec_.checkpoint.on()) begin_checkpoints();
}

// False, on every rank: one of them could not read it, and rank 0 knows another place.
bool RankSession::resume(const std::string& place) {
  const size_t cut = place.rfind('\n');
  const std::string dir = place.substr(0, cut);
  const std::string folder = place.substr(cut + 1);
  const HostTimer timer;
  // It ends on no rank before all have read: what was cut off between COMMIT and its name gets the
  // name next.
  const std::optional<LoadFailure> failure = try_to_load(control_, [&] {
    const std::unique_ptr<FileOps> files = real_files(dir);
    const CheckpointFolder checkpoint = open_checkpoint(*files, folder, options_.allow_unchecked);
    failpoints_.pass("load", checkpoint.step());
    load_from(*files, checkpoint);
    go_on(checkpoint.step(), checkpoint.state, checkpoint.commit.head.id,
          fmt::format("'{}/{}'", dir, folder));
  });
  if (failure) {
    if (output_.has_value()) output_->pass_over(failure->rank, failure->why);
    return false;
  }
  if (!output_.has_value()) return true;
  // Whoever ends the run now loses nothing that was there.
  if (output_->resumed()->same_place) state_.checkpoint_step = before_;
  tell_where_from(fmt::format("'{}/{}'", dir, folder));
  output_->event({{"event", "resume"},
                  {"step", before_},
                  {"rank", world_.rank()},
                  {"checkpoint", dir + "/" + folder},
                  {"seconds", timer.seconds()}});
  return true;
}

void RankSession::tell_where_from(const std::string& place) const {
  output_->note(fmt::format("goes on after step {} of {}", before_, place));
  if (before_ < spec_.train.steps) return;
  output_->note(fmt::format("train.steps = {}: nothing is left to do; a larger one goes on",
                            spec_.train.steps));
}

// Where a fault is armed, it is met before every box that is read, and boxes are read one by one.
void RankSession::load_from(const FileOps& files, const CheckpointFolder& checkpoint) {
  const StateLayout layout = lay_out_state(job_.step);
  if (!failpoints_.armed("load.chunk", checkpoint.step())) {
    (void)load_state(executor_, job_.step, layout, files, checkpoint);
    return;
  }
  load_state(executor_, job_.step, layout, [&](std::span<const WantedBox> wanted) {
    for (const WantedBox& box : wanted) {
      failpoints_.pass("load.chunk", checkpoint.step());
      (void)read_boxes(files, checkpoint, {&box, 1});
    }
  });
}

void RankSession::resume_from_memory() {
  const HostTimer timer;
  failpoints_.pass("load", found_->name.step);
  snapshots_->load(*found_);
  const nlohmann::json note = nlohmann::json::parse(found_->note);
  go_on(found_->name.step, note.at("state"),
        {note.at("run").get<std::string>(), note.at("generation").get<uint64_t>(), ""},
        "the snapshot in memory");
  if (!output_.has_value()) return;
  tell_where_from("the snapshot in memory");
  output_->event({{"event", "resume"},
                  {"step", before_},
                  {"rank", world_.rank()},
                  {"memory", true},
                  {"seconds", timer.seconds()}});
}

// `state`: as state_of() made it.
void RankSession::go_on(int64_t step, const nlohmann::json& state, const SaveId& last_save,
                        const std::string& place) {
  try {
    scaler_.restore(state.at("loss_scale"));
    guard_.restore(state.at("spike_guard"));
    final_loss_ = state.value("loss", 0.0);
    samples_.restore(state.value("samples_hash", ""));
  } catch (const nlohmann::json::exception& error) {
    throw Error(
        fmt::format("state.json of {} is damaged: {}; use another checkpoint", place, error.what()),
        ExitCode::kCorrupt);
  }
  before_ = step;
  steps_done_ = before_;
  state_.steps_done = before_;
  report_.begin_at(before_ + 1);
  save_id_ = {last_save.run, last_save.generation + 1, ""};
}

}  // namespace tessera
