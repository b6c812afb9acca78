#include "runtime/dispatch.h"

#include <gtest/gtest.h>

#include <array>

#include "base/error.h"

namespace tessera {
namespace {

TEST(Dispatch, RunsTheKernelOfTheOp) {
  std::array<float, 2> a = {1, 2}, b = {10, 20}, y = {};
  const std::array<Tensor, 3> tensors = {Tensor(a.data(), DType::kF32, {2}),
                                         Tensor(b.data(), DType::kF32, {2}),
                                         Tensor(y.data(), DType::kF32, {2})};
  Workers workers(1);
  kernels::Context context{workers, {}};
  Instruction add;
  add.op = OpKind::kAdd;
  add.inputs = {0, 1};
  add.outputs = {2};
  run_kernel(context, add, tensors);
  EXPECT_EQ(y, (std::array<float, 2>{11, 22}));
}

TEST(Dispatch, RefusesWhatHasNoKernel) {
  Workers workers(1);
  kernels::Context context{workers, {}};
  Instruction send;
  send.op = OpKind::kSend;
  send.name = "layers.1.out";
  try {
    run_kernel(context, send, {});
    FAIL() << "a message is no kernel";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("send 'layers.1.out' is no kernel"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tessera
