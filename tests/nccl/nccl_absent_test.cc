#include <gtest/gtest.h>

#include "comm/local/local_world.h"
#include "comm/nccl/nccl_world.h"

namespace tessera {
namespace {

TEST(NcclAbsent, RefusesAndSaysWhatToInstall) {
  EXPECT_FALSE(nccl_obstacle().empty());
  LocalWorld local({.size = 1});
  CommWorld& host = local.endpoint(0);
  try {
    (void)make_nccl_world({.host = host});
    FAIL() << "a world without NCCL";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("install the CUDA toolkit and NCCL"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tessera
