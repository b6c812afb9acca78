#include "train/preflight/local_memory.h"

#include "base/error.h"
#include "base/text/text.h"
#include "tensor/gpu_memory.h"
#include "train/machine_defaults.h"

namespace tessera {
namespace {

// The first GPU speaks for all: asking a GPU takes some of its memory until this process ends. Each
// rank asks its own before it allocates.
std::string gpu_shortage(const LocalRun& run, const RunSpec& here, int64_t fullest_rank) {
  const cuda::GpuInfo gpu = cuda::gpu_info(0);
  const int64_t sharers = run.mode == RankMode::kThreads ? here.parallel.world() : 1;
  const int64_t share = (gpu.free_bytes - kGpuLibraryBytes) / sharers;
  if (fullest_rank <= share) return "";
  const std::string whose =
      fmt::format("{} are free on {}, {} of them for libraries{}", human_bytes(gpu.free_bytes),
                  gpu.name, human_bytes(kGpuLibraryBytes),
                  sharers > 1 ? fmt::format(", shared by {} ranks", sharers) : "");
  return run.misfit(plan_within(here, run.open(), share, whose));
}

std::string host_shortage(const LocalRun& run, const RunSpec& here, const SharedMemory& shared,
                          int64_t processes, int64_t staging) {
  if (shared.suffices()) return "";
  if (staging > shared.memory.available_bytes) {
    return fmt::format(
        "does not fit: the copies that ranks make for checkpoints need {}, and {} are free on this "
        "machine; set checkpoint.async = false and checkpoint.memory_every = 0",
        human_bytes(staging), human_bytes(shared.memory.available_bytes));
  }
  if (shared.other_bytes > shared.memory.available_bytes) {
    return fmt::format(
        "does not fit: {} processes that each hold the text ({}) need {} for it, and {} are free "
        "on this machine; use less text or fewer ranks",
        processes, human_bytes(run.text_bytes), human_bytes(shared.other_bytes),
        human_bytes(shared.memory.available_bytes));
  }
  return run.misfit(plan_within(here, run.open(), shared));
}

}  // namespace

LocalMemory look_at_memory(const LocalRun& run) {
  RunSpec here = run.spec;
  const int64_t ranks = here.parallel.world() / run.hosts;
  use_machine_defaults(here, ranks);
  const PlannedMemory planned = planned_memory(here);
  // Which ranks a host will have is not known before it has met the others.
  const int64_t planned_bytes = run.hosts == 1 ? planned.all_ranks : ranks * planned.fullest_rank;
  const int64_t staging = (planned.staging + run.hosts - 1) / run.hosts;
  LocalMemory found{
      .planned_bytes = planned_bytes + staging, .memory = host_memory(), .shortage = ""};
  const bool gpu = here.train.device == TrainDevice::kCuda;
  const int64_t processes = run.mode == RankMode::kThreads ? 1 : ranks;
  if (gpu) found.shortage = gpu_shortage(run, here, planned.fullest_rank);
  if (!found.shortage.empty()) return found;
  const SharedMemory shared{.ranks = ranks,
                            .planned_bytes = gpu ? 0 : planned_bytes,
                            .other_bytes = processes * (run.text_bytes + kProcessBytes) + staging,
                            .memory = found.memory};
  found.shortage = host_shortage(run, here, shared, processes, staging);
  return found;
}

void require_gpu_for_threads(const RunSpec& spec) {
  if (spec.train.device != TrainDevice::kCuda) return;
  const std::string why_not = cuda::gpu_info(0).why_not;
  require_config(why_not.empty(), "train.device = \"cuda\": {}; use device = \"cpu\"", why_not);
}

}  // namespace tessera
