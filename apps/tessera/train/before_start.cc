#include "train/before_start.h"

#include <algorithm>

#include "api/plan.h"
#include "base/error.h"
#include "base/text/text.h"
#include "cli/read_text.h"
#include "data/text_doubt.h"
#include "launch/kill_cause.h"
#include "plan/misfit.h"
#include "train/machine_defaults.h"
#include "train/preflight/run_inputs.h"
#include "train/preflight/run_outputs.h"
#include "train/run_place.h"
#include "train/save/checkpoints.h"
#include "train/save/resume.h"

namespace tessera {

void BeforeStart::refuse_or_warn(const std::string& text, ExitCode code) const {
  if (!options_.force) throw Error(text + "\n--force starts it nevertheless", code);
  console_.err << "tessera: warning: " << text << std::endl;
}

void BeforeStart::check_files(bool chooses_folder) {
  text_bytes_ = check_inputs(spec_);
  // A run says so after its first step.
  const std::string note = options_.dry_run ? data_note(spec_.data.path) : "";
  if (!note.empty()) console_.err << "tessera: " << note << std::endl;
  if (!options_.log_dir.empty()) {
    require_writable(options_.log_dir, look_at_folder(options_.log_dir), "--log-dir");
  }
  if (!chooses_folder) return;
  run_dir_ = find_run_directory(directory_request(options_, spec_));
  require_writable(run_dir_, look_at_folder(run_dir_), "logging.run_dir");
}

void BeforeStart::check_resume() const {
  // The agents of several hosts come and go while others save, and rank 0 says it for all.
  if (options_.resume.empty() || options_.hosts.several()) return;
  RunSpec spec = spec_;
  use_machine_defaults(spec, spec.parallel.world());  // threads count where there are lanes
  std::vector<std::string> notes;
  try {
    find_resume_point(options_.resume, checkpoint_dir(spec, run_dir_), spec,
                      [&](const std::string& note) { notes.push_back(note); },
                      {.allow_unchecked = options_.allow_unchecked});
  } catch (const Error&) {
    for (const std::string& note : notes) console_.err << "tessera: " << note << '\n';
    throw;
  }
}

void BeforeStart::check_disk() const { check_disk_of(run_dir_); }

void BeforeStart::check_disk_of(const std::string& run_dir) const {
  const std::string shortage = disk_shortage(run_dir, look_at_folder(run_dir), output_of(spec_));
  if (!shortage.empty()) refuse_or_warn(shortage, ExitCode::kUsage);
}

void BeforeStart::check_device(RankMode mode, int64_t ranks) const {
  if (spec_.train.device != TrainDevice::kCuda) return;
  if (mode != RankMode::kThreads) return require_gpus(look_for_gpus(), ranks, options_.share_gpu);
  require_gpu_for_threads(spec_);
}

void BeforeStart::check_memory(RankMode mode) {
  memory_ = look_at_memory({.spec = spec_,
                            .mode = mode,
                            .hosts = std::max<int64_t>(1, options_.hosts.hosts),
                            .text_bytes = text_bytes_,
                            .open = [this] { return open_settings_of(options_.source, read_text); },
                            .misfit = [this](const Plan& plan) { return misfit_of(plan); }});
  if (!memory_.shortage.empty()) refuse_or_warn(memory_.shortage, ExitCode::kDoesNotFit);
}

std::string BeforeStart::misfit_of(const Plan& plan) const {
  return misfit_with_flags(plan, options_.source.mesh);
}

HostRefusal BeforeStart::host_refusal() const {
  if (options_.force || spec_.train.device == TrainDevice::kCuda) return nullptr;
  return [this](const HostShare& share) {
    RunSpec there = spec_;
    use_machine_defaults(there, share.ranks);
    const SharedMemory shared{
        .ranks = share.ranks, .planned_bytes = share.needed_bytes, .memory = share.memory};
    const OpenSettings open = open_settings_of(options_.source, read_text);
    return misfit_of(plan_within(there, open, shared)) + "\n--force starts it nevertheless";
  };
}

std::string BeforeStart::if_killed(const std::optional<MemoryKills>& meanwhile) const {
  return kill_cause(
      {.planned_bytes = memory_.planned_bytes, .memory = memory_.memory, .meanwhile = meanwhile});
}

}  // namespace tessera
