#include "train/machine/device_rates.h"

#include "base/cuda_workspace.h"
#include "base/workspace.h"
#include "train/machine/probe_programs.h"

namespace tessera {
namespace {

constexpr int kRuns = 5;

void repeat(Program& program, const Instruction& instruction, int times) {
  program.instructions.assign(static_cast<size_t>(times), instruction);
}

Program program_of(const StepGraph& step, int64_t scratch_bytes) {
  return empty_program(step.mesh, static_cast<int>(step.spec.train.threads), scratch_bytes);
}

// Seconds of one kernel.
double measure(const StepGraph& step, const Program& program) {
  return time_step(step, program, kRuns) / static_cast<double>(program.instructions.size());
}

double product_rate(const StepGraph& step, bool gpu) {
  const DType dtype = step.spec.train.dtype;
  const int64_t n = gpu ? 8192 : 1024;
  Program program = program_of(
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
  Program program = program_of(step, 8);
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
  const bool gpu = step.spec.train.device == TrainDevice::kCuda;
  return {product_rate(step, gpu), copy_rate(step, gpu)};
}

}  // namespace tessera
