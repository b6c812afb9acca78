#include "bench/bench_step.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/bench_step_report.h"
#include "cli/read_text.h"
#include "runtime/world.h"
#include "tensor/gpu_memory.h"
#include "train/machine_defaults.h"
#include "train/preflight/run_memory.h"

namespace tessera {

int run_bench_step(BenchStepOptions options, Console& console) {
  if (!options.device.empty()) {
    options.source.overrides.push_back("train.device=" + options.device);
  }
  const RunSpec asked = options.source.load(read_text);
  require_room_here(asked);
  const CompiledRun run = compile_here(asked);
  const RunSpec& spec = run.step.spec;
  const bool gpu = spec.train.device == TrainDevice::kCuda;
  if (gpu) {
    std::vector<const Program*> programs;
    for (const Program& program : run.programs) programs.push_back(&program);
    require_room_on_gpu(programs, 0);
  } else {
    require_room_on_host(run.programs);
  }
  const std::string device = gpu ? cuda::gpu_info(0).name : "cpu";
  const DeviceRates rates = measure_device_rates(run.step);
  StepBenchResult result = bench_step(run, {.steps = options.steps, .warmup = options.warmup});
  const StepReport report{run, std::move(result), rates,
                          choose_peak(options.peak_tflops, device, spec.train.dtype, rates),
                          device};
  if (options.json) {
    console.out << step_json(report).dump(2) << '\n';
  } else {
    console.out << fitted(console, step_text(report));
  }
  return 0;
}

}  // namespace tessera
