// A server whose weights are damaged never says that it is ready.
#include "serving/served_command.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests

class ServeDamagedCheckpointTest : public ServedCommandTest {};

TEST_F(ServeDamagedCheckpointTest, OneBitOfAShardEndsTheStartWithItsCode) {
  folder_.write("run.toml",
                "[model]\nlayers=2\nhidden=32\nffn=64\nheads=4\nvocab=256\n"
                "[train]\nseq_len=32\nglobal_batch=4\nsteps=2\n[checkpoint]\nevery=2\n");
  succeed("train run.toml -q --threads --mesh tp=2 --set logging.run_dir=run");
  const std::string step = "run/checkpoints/step-00000002";
  serve(step + " --mesh tp=2");  // as it was saved
  EXPECT_EQ(greedy({1, 2, 3}, 5).size(), 5U);
  server_.reset();

  const std::string name = "data-0001-of-0002.safetensors";
  std::string bytes = read_file(folder_.path(step + "/" + name));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  folder_.write(step + "/" + name, bytes);
  for (const char* ranks : {"", " --mesh tp=2", " --mesh pp=2 --threads"}) {
    SCOPED_TRACE(ranks);
    const CommandResult result = run("serve " + step + " --port 0" + ranks);
    EXPECT_EQ(result.code, 65) << result.err;
    EXPECT_EQ(result.out, "") << "it listened";
    EXPECT_NE(result.err.find(name), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("damaged"), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace tessera
