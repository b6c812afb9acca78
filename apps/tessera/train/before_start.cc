#include "train/before_start.h"

#include "api/plan.h"
#include "base/error.h"
#include "base/text/text.h"
#include "cli/read_text.h"
#include "data/text_doubt.h"
#include "plan/misfit.h"
#include "tensor/gpu_memory.h"
#include "train/machine_defaults.h"
#include "train/preflight/run_inputs.h"
#include "train/preflight/run_memory.h"
#include "train/preflight/run_outputs.h"
#include "train/run_place.h"

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

void BeforeStart::check_disk() const { check_disk_of(run_dir_); }

void BeforeStart::check_disk_of(const std::string& run_dir) const {
  const std::string shortage = disk_shortage(run_dir, look_at_folder(run_dir), output_of(spec_));
  if (!shortage.empty()) refuse_or_warn(shortage, ExitCode::kUsage);
}

void BeforeStart::check_device(RankMode mode, int64_t ranks) const {
  if (spec_.train.device != TrainDevice::kCuda) return;
  if (mode != RankMode::kThreads) return require_gpus(look_for_gpus(), ranks, options_.share_gpu);
  const std::string why_not = cuda::gpu_info(0).why_not;
  require_config(why_not.empty(), "train.device = \"cuda\": {}; use device = \"cpu\"", why_not);
}

void BeforeStart::check_memory(RankMode mode) {
  RunSpec here = spec_;
  use_machine_defaults(here);
  memory_ = host_memory();
  const bool gpu = here.train.device == TrainDevice::kCuda;
  const int64_t ranks = here.parallel.world();
  const int64_t processes = mode == RankMode::kThreads ? 1 : ranks;
  SharedMemory shared{
      .ranks = ranks, .other_bytes = processes * (text_bytes_ + kProcessBytes), .memory = memory_};
  planned_bytes_ = planned_memory(here).all_ranks;
  if (gpu) {
    check_gpu_memory(mode, here);
  } else {
    shared.planned_bytes = planned_bytes_;
  }
  if (shared.suffices()) return;
  if (shared.other_bytes > memory_.available_bytes) {
    return refuse_or_warn(
        fmt::format("does not fit: {} processes that each hold the text ({}) need {} for it, and "
                    "{} are free on this machine; use less text or fewer ranks",
                    processes, human_bytes(text_bytes_), human_bytes(shared.other_bytes),
                    human_bytes(memory_.available_bytes)),
        ExitCode::kDoesNotFit);
  }
  const OpenSettings open = open_settings_of(options_.source, read_text);
  refuse_or_warn(misfit_of(plan_within(here, open, shared)), ExitCode::kDoesNotFit);
}

// The first GPU speaks for all: asking a GPU takes some of its memory until this process ends. Each
// rank asks its own before it allocates.
void BeforeStart::check_gpu_memory(RankMode mode, const RunSpec& here) const {
  const cuda::GpuInfo gpu = cuda::gpu_info(0);
  const int64_t sharers = mode == RankMode::kThreads ? here.parallel.world() : 1;
  const int64_t share = (gpu.free_bytes - kGpuLibraryBytes) / sharers;
  if (planned_memory(here).fullest_rank <= share) return;
  const std::string whose =
      fmt::format("{} are free on {}, {} of them for libraries{}", human_bytes(gpu.free_bytes),
                  gpu.name, human_bytes(kGpuLibraryBytes),
                  sharers > 1 ? fmt::format(", shared by {} ranks", sharers) : "");
  const OpenSettings open = open_settings_of(options_.source, read_text);
  refuse_or_warn(misfit_of(plan_within(here, open, share, whose)), ExitCode::kDoesNotFit);
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

std::string BeforeStart::if_killed() const {
  return fmt::format("probably out of memory: planned {}, {} has {}", human_bytes(planned_bytes_),
                     memory_.group.empty() ? "the machine" : "its control group",
                     human_bytes(memory_.total_bytes));
}

}  // namespace tessera
