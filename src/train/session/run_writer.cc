#include "train/session/run_writer.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "spec/run_file/run_file.h"
#include "train/samples/tokenizer_copy.h"
#include "train/save/checkpoints.h"
#include "train/session_clock.h"

namespace tessera {

RunWriter::RunWriter(const TrainOptions& options, const TrainJob& job, int64_t memory_step)
    : options_(options),
      job_(job),
      spec_(job.step.spec),
      memory_step_(memory_step),
      rules_{.allow_unchecked = options.allow_unchecked} {
  if (!options_.run_dir_claimed) {
    claim_.emplace(claim_run_directory({.path = spec_.logging.run_dir,
                                        .weights_from = spec_.model.hf,
                                        .resume = !options_.resume.empty(),
                                        .overwrite = options_.overwrite}));
  }
  open_directory();
  if (!directory_->former_run().empty()) {
    note(fmt::format("the run that was in {} is now in {}", directory_->path(),
                     directory_->former_run()));
  }
  write_description();
}

// Where the run in `path` goes on.
void RunWriter::find_point(const std::string& path) {
  const auto say = [this](const std::string& text) {
    if (said_.insert(text).second) note(text);
  };
  const std::string own = checkpoint_dir(spec_, path);
  resumed_.reset();
  if (!options_.goes_on) {
    resumed_ = find_resume_point(options_.resume, own, spec_, say, rules_);
    return;
  }
  try {
    resumed_ = find_resume_point("auto", own, spec_, say, rules_);
  } catch (const Error& error) {
    // Memory is as good as the disk, which has nothing left.
    if (error.code() != ExitCode::kCorrupt || memory_step_ == 0) throw;
    say(error.what());
  }
  if (!resumed_.has_value() && memory_step_ == 0) {
    resumed_ = find_resume_point(options_.resume, own, spec_, say, rules_);
  }
  from_memory_ = memory_step_ > (resumed_.has_value() ? resumed_->step() : 0);
}

void RunWriter::pass_over(int rank, const Error& why) {
  const ResumePoint bad = *resumed_;
  const std::string path = directory_->path();
  event({{"event", "checkpoint damaged"},
         {"step", bad.step()},
         {"rank", rank},
         {"checkpoint", bad.dir + "/" + bad.checkpoint.folder},
         {"reason", why.what()}});
  if (bad.named) throw Error(why);
  rules_.damaged[bad.dir].emplace(bad.checkpoint.folder, why);
  find_point(path);
  const int64_t step = resumed_.has_value() ? resumed_->step() : 0;
  if (options_.goes_on || (resumed_.has_value() && resumed_->same_place)) {
    directory_.emplace(path, from_memory_ ? memory_step_ : step);
  }
}

void RunWriter::open_directory() {
  const std::string path = claim_.has_value() ? claim_->path() : spec_.logging.run_dir;
  find_point(path);
  if (options_.goes_on) {
    const int64_t on_disk = resumed_.has_value() ? resumed_->step() : 0;
    directory_.emplace(path, std::max(memory_step_, on_disk));
    return;
  }
  if (resumed_.has_value() && resumed_->same_place) {
    directory_.emplace(path, resumed_->step());
    return;
  }
  // What does not go on here is not ours to write over; a run that was cut off before its first
  // checkpoint begins again where nobody is there to say so.
  const bool begins_again = options_.resume == "auto" && was_cut_off(path);
  const std::string found = options_.resume.empty() || begins_again ? "" : run_file_in(path);
  require_config(
      found.empty() || options_.overwrite,
      "the run directory '{}' holds a run ({}) without the checkpoint that this one goes "
      "on from: --overwrite moves it to '{}', or set another logging.run_dir",
      path, found, place_for_former_run(path));
  directory_.emplace(path);
}

void RunWriter::write_description() {
  write_resolved_run();
  if (!options_.config_text.empty()) directory_->write_text("config.toml", options_.config_text);
  directory_->write_json("plan.json", job_.plan);
  copy_tokenizer(spec_, *directory_, [this](const std::string& text) { note(text); });
  if (spec_.logging.tensorboard) events_.emplace(directory_->path(), unix_seconds());
}

// As JSON for programs, and as a run file. What this machine has is not part of the latter; a
// schedule that came from a file is kept with the run.
void RunWriter::write_resolved_run() {
  RunSpec resolved = spec_;
  resolved.logging.run_dir = directory_->path();
  directory_->write_json("resolved.json", to_json(resolved));
  resolved.cluster.memory_gib = options_.spec.cluster.memory_gib;
  if (resolved.parallel.schedule.is_file()) {
    directory_->write_text("schedule.csv", resolved.parallel.schedule_csv);
    resolved.parallel.schedule = PipelineChoice::parse(directory_->file("schedule.csv"));
  }
  directory_->write_text("resolved.toml", to_toml(resolved));
}

void RunWriter::note(const std::string& text) const {
  if (options_.on_note) options_.on_note(text);
}

void RunWriter::event(nlohmann::ordered_json line) const {
  line["time"] = unix_seconds();
  std::ofstream file(directory_->file("events.jsonl"), std::ios::binary | std::ios::app);
  file << line.dump() + "\n" << std::flush;
}

std::string RunWriter::keep_directory() {
  if (!directory_->vanished()) return "";
  const std::string& path = directory_->path();
  try {
    if (!directory_->make_again()) return "";
    write_description();
    note(
        fmt::format("the run directory '{}' was removed: it was made again; metrics up to step {} "
                    "are lost",
                    path, steps_done_));
    return "";
  } catch (const Error& error) {
    if (!said_that_directory_fails_) {
      said_that_directory_fails_ = true;
      note(fmt::format(
          "the run directory '{}' was removed or replaced, and cannot be had again ({}): the run "
          "goes on without metrics",
          path, error.what()));
    }
    return directory_->is_ours() ? "" : error.what();
  }
}

void RunWriter::log(const nlohmann::ordered_json& line) {
  (void)keep_directory();
  if (directory_->append_metrics(line) || said_that_metrics_fail_) return;
  said_that_metrics_fail_ = true;
  note(
      fmt::format("cannot write '{}': is the disk full? The run goes on without metrics, and will "
                  "try to write its weights at the end",
                  directory_->file("metrics.jsonl")));
}

void RunWriter::append_event(const nlohmann::ordered_json& line) {
  if (!events_.has_value()) return;
  try {
    events_->append(line);
  } catch (const Error& error) {
    events_.reset();
    note(fmt::format("{}; the run goes on without events for TensorBoard", error.what()));
  }
}

void RunWriter::describe_weights() {
  try {
    if (const auto config = hf_config(spec_)) directory_->write_json("config.json", *config);
  } catch (const Error& error) {
    note(error.what());
  }
}

}  // namespace tessera
