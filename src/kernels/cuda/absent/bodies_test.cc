// What a program without CUDA says to who asks for a GPU.
#include "kernels/bodies.h"

#include "kernels/testing/test_support.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

// No such program can make a Gpu: any address will do, as nobody may look at it.
class AbsentBodies : public ::testing::Test {
 protected:
  Context on_gpu() {
    Context context = rig_.ctx();
    context.gpu = reinterpret_cast<cuda::Gpu*>(&rig_);
    return context;
  }
  Rig rig_;
};

TEST_F(AbsentBodies, RefuseAndSayHowToBuild) {
  Context context = on_gpu();
  const Array x = Array(DType::kF32, {2, 3}).fill(1);
  Array y(DType::kF32, {2, 3});
  try {
    gelu(context, x, y);
    FAIL() << "computed without a GPU";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("-DTESSERA_CUDA=on"), std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(std::isnan(y.get(0))) << "the CPU stepped in";
  gelu(rig_, x, y);
  EXPECT_FALSE(std::isnan(y.get(0)));
}

TEST_F(AbsentBodies, AreAskedForWhenArgumentsWereChecked) {
  Context context = on_gpu();
  const Array x(DType::kF32, {2, 3});
  Array y(DType::kF32, {2, 4});
  EXPECT_THROW(gelu(context, x, y), InternalError);
}

}  // namespace
}  // namespace tessera::kernels
