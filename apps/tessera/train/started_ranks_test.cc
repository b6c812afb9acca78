#include "train/started_ranks.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "launch/testing/started_by.h"

namespace tessera {
namespace {

using testing::started_by;

TEST(StartedRanksTest, AsManyRanksAsTheMeshHas) {
  RunSpec spec;
  spec.parallel.dp = 4;
  spec.model.heads = 4;
  EXPECT_NO_THROW(require_started_ranks(spec, started_by(Launcher::kSlurm, 4)));
  try {
    require_started_ranks(spec, started_by(Launcher::kSlurm, 2));
    FAIL() << "two ranks for a mesh of four";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("needs 4 ranks but srun started 2; meshes with 2"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tessera
