// A build without MPI, whatever this one is: the test is linked with that build's source.
#include <gtest/gtest.h>

#include "comm/mpi/mpi_world.h"

namespace tessera {
namespace {

TEST(MpiAbsentTest, SaysWhatToInstall) {
  EXPECT_FALSE(mpi_available());
  try {
    (void)make_mpi_world({});
    FAIL() << "a world without MPI";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("openmpi-bin libopenmpi-dev"), std::string::npos)
        << error.what();
  }
  EXPECT_EXIT(end_mpi_after_failure(3), ::testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace tessera
