// A run that is killed at a random step and goes on has the bits of one that nothing happened to,
// on every kind of mesh and in every type; as threads of one process, and as processes. That of
// mpirun is in tests/mpi.
#include "support/resume_table.h"

#include "faults/fault_run.h"

namespace tessera::testing {
namespace {

class ResumeTableTest : public FaultTest {
 protected:
  ResumeTableTest() : seed_(resume_seed()) { folder_.write("run.toml", resume_run_file()); }

  // `again`: flags of the command that goes on; empty: the killed one does so itself.
  void kill_and_go_on(int64_t turn, const std::string& launcher, int code,
                      const std::string& again) {
    const std::vector<ResumeCase> cases = resume_cases(seed_, turn);
    fmt::print("TESSERA_RESUME_SEED={} draws these {} again\n", seed_, cases.size());
    for (const ResumeCase& one : cases) {
      SCOPED_TRACE(
          fmt::format("{}: {}, {} (TESSERA_RESUME_SEED={})", one.what, one.fault, launcher, seed_));
      std::filesystem::remove_all(folder_.path("straight"));
      succeed("train run.toml -q --threads --set logging.run_dir=straight " + one.flags);
      const CommandResult killed = train(one.fault, launcher + one.flags);
      EXPECT_EQ(killed.code, code) << killed.err;
      if (!again.empty()) {
        succeed("train run.toml -q --set logging.run_dir=out " + again + one.flags);
      }
      expect_same_training(folder_, "out", "straight");
      expect_resumed(folder_, "out", one);
      expect_good_checkpoints();
      expect_nothing_left();
    }
  }

  const uint64_t seed_;
};

TEST_F(ResumeTableTest, Row2ThreadsOfAProcess) {
  kill_and_go_on(0, "--threads ", 128 + SIGKILL, "--threads --resume auto --overwrite ");
}

TEST_F(ResumeTableTest, Row2Processes) { kill_and_go_on(1, "--restarts 1 ", 0, ""); }

// The comparison can fail: one that begins with another seed has other bits.
TEST_F(ResumeTableTest, SeesOtherBits) {
  succeed("train run.toml -q --threads --set logging.run_dir=straight");
  succeed("train run.toml -q --threads --set logging.run_dir=out --set train.seed=3");
  EXPECT_NE(read_file(folder_.path("out/model.safetensors")),
            read_file(folder_.path("straight/model.safetensors")));
}

}  // namespace
}  // namespace tessera::testing
