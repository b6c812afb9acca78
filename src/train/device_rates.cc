#include "train/device_rates.h"

#include <algorithm>
#include <chrono>

#include "base/cuda_workspace.h"
#include "base/philox.h"
#include "base/workspace.h"
#include "runtime/world.h"
#include "tensor/element.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 5;

BufferId add_buffer(Program& program, const std::string& name, DType dtype, const Shape& shape) {
  const auto arena = static_cast<size_t>(ArenaKind::kActivations);
  int64_t& end = program.arena_bytes[arena];
  program.buffers.push_back({name, dtype, shape, ArenaKind::kActivations, end});
  end += (program.buffers.back().bytes() + workspace::kAlignBytes - 1) / workspace::kAlignBytes *
         workspace::kAlignBytes;
  return static_cast<BufferId>(program.buffers.size()) - 1;
}

// Nothing but `repeats` times the same kernel.
Program empty_program(const StepGraph& step, int64_t scratch_bytes) {
  Program program;
  program.mesh = step.mesh;
  program.threads = static_cast<int>(step.spec.train.threads);
  program.scratch = add_buffer(program, "scratch", DType::kF64, {(scratch_bytes + 7) / 8});
  return program;
}

void repeat(Program& program, const Instruction& instruction, int times) {
  program.instructions.assign(static_cast<size_t>(times), instruction);
}

// Numbers like those of training: zeros can be multiplied faster.
void fill_random(Executor& executor, BufferId id) {
  executor.edit(id, [](const Tensor& tensor) {
    constexpr int64_t kPeriod = 65521;
    for (int64_t i = 0; i < std::min(kPeriod, tensor.numel()); ++i) {
      write_element(tensor, i, normal_at(1, 1, static_cast<uint64_t>(i)));
    }
    const int64_t element = size_bytes(tensor.dtype);
    auto* bytes = static_cast<std::byte*>(tensor.data);
    for (int64_t i = kPeriod; i < tensor.numel(); i += kPeriod) {
      const int64_t count = std::min(kPeriod, tensor.numel() - i);
      std::copy_n(bytes, count * element, bytes + i * element);
    }
  });
}

// Seconds of one kernel: the median of some runs.
double measure(const StepGraph& step, const Program& program) {
  WorldOptions options;
  options.executor.gpu = gpu_options(step.spec, 0);
  options.executor.cuda_graph = "off";
  World world(step, {program}, options);
  std::vector<double> seconds;
  world.run([&](int, Executor& executor) {
    for (const BufferId id : program.instructions.front().inputs) fill_random(executor, id);
    executor.run({});
    for (int i = 0; i < kRuns; ++i) {
      const Clock::time_point start = Clock::now();
      executor.run({});
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
  });
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2] / static_cast<double>(program.instructions.size());
}

double product_rate(const StepGraph& step, bool gpu) {
  const DType dtype = step.spec.train.dtype;
  const int64_t n = gpu ? 8192 : 1024;
  Program program = empty_program(
      step, gpu ? workspace::cuda::kMatmulBytes
                : workspace::linear(dtype, n, n, n, static_cast<int>(step.spec.train.threads)));
  Instruction product;
  product.op = OpKind::kLinear;
  product.name = "product";
  product.inputs = {add_buffer(program, "x", dtype, {n, n}),
                    add_buffer(program, "w", dtype, {n, n})};
  product.outputs = {add_buffer(program, "y", dtype, {n, n})};
  repeat(program, product, gpu ? 16 : 2);
  const auto size = static_cast<double>(n);
  return 2 * size * size * size / measure(step, program);
}

double copy_rate(const StepGraph& step, bool gpu) {
  const int64_t bytes = gpu ? int64_t{1} << 30 : int64_t{1} << 26;
  Program program = empty_program(step, 8);
  Instruction copy;
  copy.op = OpKind::kCopy;
  copy.name = "copy";
  copy.inputs = {add_buffer(program, "from", DType::kF32, {bytes / 4})};
  copy.outputs = {add_buffer(program, "to", DType::kF32, {bytes / 4})};
  repeat(program, copy, gpu ? 16 : 2);
  return 2 * static_cast<double>(bytes) / measure(step, program);
}

}  // namespace

DeviceRates measure_device_rates(const StepGraph& step) {
  const bool gpu = step.spec.train.device == "cuda";
  return {product_rate(step, gpu), copy_rate(step, gpu)};
}

}  // namespace tessera
