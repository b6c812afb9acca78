#include "train/machine_defaults.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <thread>

#include "base/error.h"
#include "base/rounding.h"
#include "base/text.h"
#include "base/units.h"
#include "compile/program/memory_parts.h"
#include "tensor/gpu_memory.h"

namespace tessera {
namespace {

// What cuBLASLt and cuDNN load beside the arenas, at most.
constexpr int64_t kGpuLibraryBytes = int64_t{512} << 20;
// What a plan for a GPU supposes where there is none to ask: an H100's. cluster.memory_gib says
// more.
constexpr double kAbsentGpuBytes = 80 * kGibibyte;

// The host only puts work on the GPU. Ranks that outnumber the GPUs share them.
void use_gpu_defaults(RunSpec& spec, int64_t sharers) {
  if (spec.train.threads == 0) spec.train.threads = 1;
  if (spec.cluster.memory_gib > 0) return;
  const cuda::GpuInfo gpu = cuda::gpu_info(0);
  const auto gpus = std::max<int64_t>(1, cuda::num_gpus());
  const int64_t ranks_per_gpu = ceil_div(sharers, gpus);
  const auto room = gpu.why_not.empty() ? static_cast<double>(gpu.free_bytes) : kAbsentGpuBytes;
  spec.cluster.memory_gib = room / kGibibyte / static_cast<double>(ranks_per_gpu);
}

}  // namespace

void choose_device(RunSpec& spec) {
  if (spec.train.device != TrainDevice::kAuto) return;
  const bool alone = spec.parallel.world() == 1;
  spec.train.device =
      alone && cuda::gpu_info(0).why_not.empty() ? TrainDevice::kCuda : TrainDevice::kCpu;
}

void use_machine_defaults(RunSpec& spec, int64_t ranks_on_host) {
  const int64_t sharers = ranks_on_host > 0 ? ranks_on_host : spec.parallel.world();
  choose_device(spec);
  if (spec.train.device == TrainDevice::kCuda) use_gpu_defaults(spec, sharers);
  if (spec.train.threads == 0) {
    const auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
    spec.train.threads = std::max<int64_t>(1, cores / sharers);
  }
  if (spec.cluster.memory_gib <= 0) {
    struct sysinfo info = {};
    sysinfo(&info);
    spec.cluster.memory_gib = static_cast<double>(info.totalram) *
                              static_cast<double>(info.mem_unit) / kGibibyte /
                              static_cast<double>(sharers);
  }
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
  for (const ArenaKind arena : kAllArenas) {
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
