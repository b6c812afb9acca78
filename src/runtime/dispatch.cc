#include "runtime/dispatch.h"

#include <algorithm>
#include <array>

#include "graph/rows_by_op.h"
#include "runtime/dispatch_experts.h"
#include "runtime/dispatch_float8.h"
#include "runtime/dispatch_model.h"
#include "runtime/dispatch_serving.h"
#include "runtime/dispatch_step.h"

namespace tessera {
namespace {

// An op without a row, with two, or with one that names no function does not compile.
constexpr std::array<KernelRow, kNumOps> kTable =
    rows_by_op<kNumOps>(dispatch::kModelKernels, dispatch::kExpertKernels, dispatch::kStepKernels,
                        dispatch::kServingKernels, dispatch::kFloat8Kernels);
static_assert(std::ranges::none_of(kTable,
                                   [](const KernelRow& row) { return row.run == nullptr; }));

}  // namespace

void run_kernel(kernels::Context& context, const Instruction& instruction,
                std::span<const Tensor> tensors) {
  kTable[index_of(instruction.op)].run({context, instruction, tensors});
}

}  // namespace tessera
