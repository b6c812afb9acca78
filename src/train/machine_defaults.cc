#include "train/machine_defaults.h"

#include <algorithm>
#include <array>
#include <thread>

#include "base/error.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "compile/program/memory_parts.h"
#include "cost/hardware/catalogue.h"
#include "plan/memory_limit.h"
#include "tensor/gpu_memory.h"

namespace tessera {
namespace {

// What a plan for a GPU supposes where there is none to ask, as plans for clusters of it do.
// cluster.memory_gib says more.
double absent_gpu_bytes() { return static_cast<double>(usable_bytes(find_cluster("h100"))); }

// A rank has a GPU of its own, here or where it is to run: a run for 16 GPUs can be planned on a
// machine that has one, or none.
std::string use_gpu_memory(RunSpec& spec) {
  const cuda::GpuInfo gpu = cuda::gpu_info(0);
  const bool here = gpu.why_not.empty();
  spec.cluster.memory_gib =
      (here ? static_cast<double>(gpu.free_bytes) : absent_gpu_bytes()) / kGibibyte;
  return here ? fmt::format("what is free on this machine's {}", gpu.name)
              : "an H100's, since this machine has no GPU";
}

std::string use_host_memory(RunSpec& spec, int64_t sharers) {
  const HostMemory memory = host_memory();
  spec.cluster.memory_gib =
      static_cast<double>(memory.total_bytes) / kGibibyte / static_cast<double>(sharers);
  return shared_memory_text(memory.total_bytes, memory, sharers);
}

}  // namespace

void choose_device(RunSpec& spec) {
  if (spec.train.device != TrainDevice::kAuto) return;
  const bool alone = spec.parallel.world() == 1 && spec.train.lanes == 0 && !spec.train.fp8.on();
  spec.train.device =
      alone && cuda::gpu_info(0).why_not.empty() ? TrainDevice::kCuda : TrainDevice::kCpu;
}

ServingShare serving_share(int64_t ranks) {
  constexpr double kTakenShare = 0.9;
  const auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  return {std::max<int64_t>(1, cores / std::max<int64_t>(1, ranks)),
          static_cast<int64_t>(kTakenShare * static_cast<double>(host_memory().available_bytes))};
}

std::string shared_memory_text(int64_t bytes, const HostMemory& memory, int64_t sharers) {
  return fmt::format("{} {}{}", memory.group.empty() ? "this machine's" : "its control group's",
                     human_bytes(bytes),
                     sharers > 1 ? fmt::format(", shared by {} ranks", sharers) : "");
}

std::string use_machine_defaults(RunSpec& spec, int64_t ranks_on_host) {
  const int64_t sharers = ranks_on_host > 0 ? ranks_on_host : spec.parallel.world();
  choose_device(spec);
  const bool cuda = spec.train.device == TrainDevice::kCuda;
  // The host only puts work on a GPU.
  if (cuda && spec.train.threads == 0) spec.train.threads = 1;
  if (spec.train.threads == 0) {
    const auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
    // With lanes as many as with the most replicas: threads have a say in the bits too.
    const int64_t most = spec.train.lanes > 0 ? sharers * spec.train.lanes * spec.train.redundancy /
                                                    spec.parallel.replicas()
                                              : sharers;
    spec.train.threads = std::max<int64_t>(1, cores / most);
  }
  if (spec.cluster.memory_gib > 0) return "";
  return cuda ? use_gpu_memory(spec) : use_host_memory(spec, sharers);
}

CompiledRun compile_here(RunSpec spec) {
  use_machine_defaults(spec);
  return compile_run(spec);
}

void require_room_on_gpu(std::span<const Program* const> programs, int gpu) {
  const cuda::GpuInfo info = cuda::gpu_info(gpu);
  require(info.why_not.empty(), "train.device = \"cuda\": {}; use device = \"cpu\"", info.why_not);
  std::array<int64_t, kNumArenas> bytes{};
  int64_t needed = kGpuLibraryBytes;
  for (const Program* program : programs) {
    const auto parts = memory_parts(*program);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] += parts[i];
    needed += program->total_bytes();
  }
  if (needed <= info.free_bytes) return;
  std::string parts = fmt::format("libraries {}", human_bytes(kGpuLibraryBytes));
  for (const ArenaKind arena : kTrainingArenas) {
    parts += fmt::format(", {} {}", name_of(arena), human_bytes(bytes[static_cast<size_t>(arena)]));
  }
  throw Error(
      fmt::format("does not fit: {} on GPU {} ({}) needs {}, {} are free, {} too few: {}; lower "
                  "train.micro_batch, use parallel.recompute, or more GPUs",
                  programs.size() == 1 ? "the rank" : fmt::format("{} ranks", programs.size()), gpu,
                  info.name, human_bytes(needed), human_bytes(info.free_bytes),
                  human_bytes(needed - info.free_bytes), parts),
      ExitCode::kDoesNotFit);
}

}  // namespace tessera
