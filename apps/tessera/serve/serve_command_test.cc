// `tessera serve`: what its flags ask for, and what it refuses before anything is started. Servers
// as processes are tested in tests/serving.
#include "serve/serve_command.h"

#include <gtest/gtest.h>

#include "asked_words.h"
#include "base/error.h"
#include "base/testing/test_folder.h"
#include "base/text/units.h"
#include "serve/api_key.h"
#include "serve/start_request.h"

namespace tessera {
namespace {

using testing::contains;
using testing::refusal_of_command;
using testing::TestFolder;

std::string refusal_of(const ServeCommandOptions& options) {
  try {
    (void)start_request(options, {});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

ServeCommandOptions of_mesh(const std::string& mesh) {
  ServeCommandOptions options;
  options.model = "m";
  options.mesh = mesh;
  return options;
}

TEST(ServeCommandTest, FlagsBecomeOptions) {
  ServeCommandOptions options = of_mesh("dp=2,tp=4,pp=3,ep=2");
  options.dtype = "bf16";
  options.max_context = 4096;
  options.max_sequences = 7;
  options.token_budget = 300;
  options.page = 32;
  options.memory_gib = 1.5;
  options.admission = "guarantee";
  options.no_prefix_cache = true;
  options.queue = 5;
  options.name = "n";
  const serve::StartOptions start = start_request(options, {{"A", "B"}});
  EXPECT_EQ(start.ranks.model, "m");
  EXPECT_EQ(start.replicas, 2);
  EXPECT_EQ(start.ranks.tp, 4);
  EXPECT_EQ(start.ranks.pp, 3);
  EXPECT_EQ(start.ranks.ep, 2);
  EXPECT_EQ(start.ranks.dtype, DType::kBF16);
  EXPECT_EQ(start.ranks.max_context, 4096);
  EXPECT_EQ(start.ranks.max_sequences, 7);
  EXPECT_EQ(start.ranks.max_rows, 7);
  EXPECT_EQ(start.ranks.max_tokens, 300);
  EXPECT_EQ(start.batch.token_budget, 300);
  EXPECT_EQ(start.ranks.page_size, 32);
  EXPECT_EQ(start.ranks.memory_bytes, static_cast<int64_t>(1.5 * kGibibyte));
  EXPECT_EQ(start.batch.admission, serve::Admission::kGuarantee);
  EXPECT_FALSE(start.batch.prefix_cache);
  EXPECT_EQ(start.most_waiting, 5);
  EXPECT_EQ(start.name, "n");
  EXPECT_EQ(start.environment.at("A"), "B");
}

TEST(ServeCommandTest, OneRankIsAThreadAndSeveralAreProcesses) {
  EXPECT_FALSE(start_request(of_mesh(""), {}).processes);
  EXPECT_FALSE(start_request(of_mesh("tp=1,pp=1"), {}).processes);
  for (const char* mesh : {"tp=2", "pp=2", "dp=2"}) {
    const serve::StartOptions start = start_request(of_mesh(mesh), {});
    EXPECT_TRUE(start.processes) << mesh;
    EXPECT_EQ(start.restarts, kUsualRestarts) << mesh;
    ServeCommandOptions threads = of_mesh(mesh);
    threads.threads = true;
    EXPECT_FALSE(start_request(threads, {}).processes) << mesh;
    EXPECT_EQ(start_request(threads, {}).restarts, 0) << mesh;
  }
  ServeCommandOptions again = of_mesh("");
  again.restarts = 2;
  EXPECT_TRUE(start_request(again, {}).processes);
  again.restarts = 0;
  EXPECT_FALSE(start_request(again, {}).processes);
  ServeCommandOptions traced = of_mesh("tp=2");
  traced.trace = "t.json";
  for (const bool threads : {true, false}) {
    traced.threads = threads;
    EXPECT_EQ(start_request(traced, {}).trace, "t.json");
    EXPECT_EQ(start_request(traced, {}).processes, !threads);
  }
}

TEST(ServeCommandTest, AxesOfTrainingAreRefusedByNameWithWhatToDo) {
  EXPECT_TRUE(contains(refusal_of(of_mesh("fsdp=2")), "'fsdp'"));
  EXPECT_TRUE(contains(refusal_of(of_mesh("fsdp=2")), "use tp or pp"));
  EXPECT_TRUE(contains(refusal_of(of_mesh("tp=2,cp=2")), "'cp': a long prompt"));
  EXPECT_TRUE(contains(refusal_of(of_mesh("tp=2,zero=1")), "'zero'"));
  EXPECT_TRUE(contains(refusal_of(of_mesh("pp=2,schedule=gpipe")), "setting of training"));
  EXPECT_TRUE(contains(refusal_of(of_mesh("tp")), "key=value"));
  EXPECT_TRUE(contains(refusal_of(of_mesh("tp=0")), "tp"));
  EXPECT_TRUE(contains(refusal_of(of_mesh("tq=2")), "tq"));
}

TEST(ServeCommandTest, FlagsThatContradictEachOtherAreRefused) {
  ServeCommandOptions gpu = of_mesh("");
  gpu.device = "cuda";
  EXPECT_TRUE(contains(refusal_of(gpu), "--device cuda: serving runs on the CPU"));
  ServeCommandOptions both = of_mesh("tp=2");
  both.threads = true;
  both.restarts = 1;
  EXPECT_TRUE(contains(refusal_of(both), "--restarts 1"));
  ServeCommandOptions sized = of_mesh("");
  sized.pages = 10;
  sized.memory_gib = 2;
  EXPECT_TRUE(contains(refusal_of(sized), "--pages 10 and --memory-gib 2"));
}

TEST(ServeCommandTest, WhoLetsOthersInNeedsAKey) {
  EXPECT_TRUE(contains(refusal_of_command({"serve", "m", "--host", "0.0.0.0"}), "--api-key-file"));
  EXPECT_TRUE(
      contains(refusal_of_command({"serve", "m", "--port", "65536"}), "ports end at 65535"));
  EXPECT_TRUE(contains(refusal_of_command({"serve"}), "serve"));
  EXPECT_TRUE(contains(refusal_of_command({"serve", "m", "--dtype", "f16"}), "f64"));
  EXPECT_TRUE(contains(refusal_of_command({"serve", "nowhere-at-all"}), "nowhere-at-all"));
}

TEST(ServeCommandTest, TheKeyComesFromAFileOrTheEnvironment) {
  const TestFolder folder;
  const std::string key = "0123456789abcdef";
  EXPECT_EQ(api_key("", {}), "");
  EXPECT_EQ(api_key("", {{"TESSERA_API_KEY", key}}), key);
  EXPECT_EQ(api_key(folder.write("k", key + "\r\n\nmore"), {{"TESSERA_API_KEY", "other"}}), key);
  EXPECT_THROW((void)api_key(folder.path("absent"), {}), ConfigError);
  EXPECT_THROW((void)api_key(folder.write("e", "\nkey\n"), {}), ConfigError);
  EXPECT_THROW((void)api_key(folder.write("s", "short\n"), {}), ConfigError);
  EXPECT_THROW((void)api_key("", {{"TESSERA_API_KEY", "short"}}), ConfigError);
}

}  // namespace
}  // namespace tessera
