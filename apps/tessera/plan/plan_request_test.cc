#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "cli/read_text.h"
#include "cost/hardware/catalogue.h"
#include "plan/plan_command.h"

namespace tessera {
namespace {

void set(SplitFlags& request, std::string_view flag, const std::string& value) {
  for (SplitFlags::Size& size : request.sizes) {
    if (size.flag == flag) size.value = value;
  }
}
void set(SplitFlags& request, std::string_view flag, int64_t value) {
  set(request, flag, std::to_string(value));
}

SplitFlags request_405b() {
  SplitFlags request;
  request.model = "llama-3-405b";
  request.cluster = "h100-16384";
  request.sequence_parallel = true;
  set(request, "--tp", 8);
  set(request, "--pp", 16);
  set(request, "--zero", 1);
  set(request, "--seq-len", 8192);
  return request;
}

struct Printed {
  int code = 0;
  std::string out, error;
};
Printed print(const PlanOptions& options) {
  std::ostringstream out;
  std::ostringstream err;
  Console console{out, err};
  Printed result;
  try {
    result.code = run_plan(options, console);
    result.error = err.str();
  } catch (const Error& error) {
    result.code = static_cast<int>(error.code());
    result.error = error.what();
  }
  result.out = out.str();
  return result;
}

TEST(PlanCommand, FillsInWhatNobodySaidAndListsIt) {
  std::vector<Guess> guesses;
  const RunSpec spec =
      load_split({}, request_405b(), find_cluster("h100-16384"), read_text, guesses);
  EXPECT_EQ(spec.parallel.dp, 128);
  EXPECT_EQ(spec.train.dtype, DType::kBF16);
  EXPECT_EQ(spec.train.device, TrainDevice::kCuda);
  EXPECT_EQ(spec.train.global_batch, 128 * 64);
  ASSERT_EQ(guesses.size(), 3U);  // not the sequence length, which was given
  EXPECT_EQ(guesses[0].what, "train.dtype");
  EXPECT_EQ(guesses[1].what, "parallel.dp");
  EXPECT_EQ(guesses[2].what, "train.global_batch");
}

TEST(PlanCommand, SaysThatSequenceParallelismIsOff) {
  SplitFlags request = request_405b();
  request.sequence_parallel = false;
  std::vector<Guess> guesses;
  EXPECT_FALSE(load_split({}, request, find_cluster("h100-16384"), read_text, guesses)
                   .parallel.sequence_parallel);
  EXPECT_TRUE(std::any_of(guesses.begin(), guesses.end(), [](const Guess& guess) {
    return guess.what == "parallel.sequence_parallel";
  }));
}

TEST(PlanCommand, GuessesNoMoreTokensThanTheModelHasPositionsFor) {
  std::vector<Guess> guesses;
  SplitFlags request;
  request.model = "gpt2";
  EXPECT_EQ(load_split({}, request, find_cluster("h100-8"), read_text, guesses).train.seq_len,
            1024);
}

TEST(PlanCommand, RefusesSizesThatLeaveDevicesOver) {
  SplitFlags request = request_405b();
  set(request, "--tp", 3);
  std::vector<Guess> guesses;
  EXPECT_THROW(load_split({}, request, find_cluster("h100-16384"), read_text, guesses),
               ConfigError);
}

TEST(PlanCommand, PrintsThePlanOf16384Ranks) {
  PlanOptions options;
  options.query.split = request_405b();
  options.query.split.tokens = 15'000'000'000'000;
  const Printed printed = print(options);
  EXPECT_EQ(printed.code, 0) << printed.error;
  for (const char* part : {"405,853,388,800 parameters", "pp=16 x dp=128 x tp=8 (16,384 ranks)",
                           "heaviest stage first", "pipeline bubble", "MFU", "HFU", "device-hours",
                           "reduce_scatter", "infiniband", "guessed"}) {
    EXPECT_NE(printed.out.find(part), std::string::npos) << part << "\n" << printed.out;
  }
}

TEST(PlanCommand, CheckExitsWith3AndSaysWhatWouldFit) {
  PlanOptions options;
  options.query.split = request_405b();
  options.check = options.json = true;
  const Printed printed = print(options);
  EXPECT_EQ(printed.code, 3);
  EXPECT_NE(printed.error.find("does not fit: rank 1024"), std::string::npos) << printed.error;
  EXPECT_NE(printed.error.find("the cheapest changes"), std::string::npos) << printed.error;
  const auto json = nlohmann::json::parse(printed.out);
  EXPECT_FALSE(json.at("fits").get<bool>());
  EXPECT_EQ(json.at("changes").size(), 3U);
  EXPECT_EQ(json.at("world"), 16384);
}

// A misfit is an answer like another: the document is whole, and the code says it.
TEST(PlanCommand, CheckAdvisesWithoutAClusterToo) {
  PlanOptions options;
  options.query.source.file = std::string(TESSERA_SOURCE_DIR) + "/examples/demo.toml";
  options.query.source.overrides = {"cluster.memory_gib=0.02"};
  options.check = options.json = true;
  const Printed printed = print(options);
  EXPECT_EQ(printed.code, 3);
  EXPECT_NE(printed.error.find("does not fit: rank"), std::string::npos) << printed.error;
  const auto json = nlohmann::json::parse(printed.out);
  EXPECT_EQ(json.at("schema_version"), 2);
  EXPECT_EQ(json.at("kind"), "plan");
  EXPECT_FALSE(json.at("fits").get<bool>());
  EXPECT_EQ(json.at("ranks").size(), 4U);
  ASSERT_FALSE(json.at("changes").empty());
  EXPECT_EQ(json.at("changes_priced_on"), "cpu-4");
  for (const std::string setting : json.at("changes")[0].at("settings")) {
    options.query.source.overrides.push_back(setting);
  }
  EXPECT_EQ(print(options).code, 0) << print(options).error;
}

TEST(PlanCommand, HasTheSameShapeWithAndWithoutACluster) {
  PlanOptions options;
  options.query.source.file = std::string(TESSERA_SOURCE_DIR) + "/examples/demo.toml";
  options.query.source.overrides = {"train.threads=1"};
  options.json = true;
  const auto alone = nlohmann::json::parse(print(options).out);
  options.query.split.cluster = "cpu-4";
  const auto priced = nlohmann::json::parse(print(options).out);
  EXPECT_EQ(alone.at("classes"), priced.at("classes"));
  EXPECT_EQ(alone.at("ranks"), priced.at("ranks"));
  for (const auto& [key, value] : alone.items()) EXPECT_TRUE(priced.contains(key)) << key;
  const auto& time = priced.at("time");
  double sum = time.at("forward_s").get<double>() + time.at("backward_s").get<double>() +
               time.at("bubble_s").get<double>() + time.at("optimizer_s").get<double>();
  for (const auto& [axis, exposed] : time.at("exposed_s").items()) sum += exposed.get<double>();
  EXPECT_NEAR(sum, time.at("step_s").get<double>(), 1e-9 * sum);
}

TEST(PlanCommand, CheckSaysOnceWhatWouldFit) {
  PlanOptions options;
  options.query.split = request_405b();
  const std::string hint = "(--check: what would make it fit)";
  EXPECT_NE(print(options).out.find(hint), std::string::npos);
  options.check = true;
  const Printed printed = print(options);
  EXPECT_EQ(printed.out.find(hint), std::string::npos) << printed.out;
  EXPECT_NE(printed.out.find("1,024 ranks need as much"), std::string::npos) << printed.out;
}

TEST(PlanCommand, SaysHowManyDevicesOfTheClusterAreUsed) {
  PlanOptions options;
  options.query.split = request_405b();
  options.query.split.cluster = "llama3-24k";
  set(options.query.split, "--dp", 128);
  const std::string text = print(options).out;
  EXPECT_NE(text.find("llama3-24k: 16,384 of its 24,576 x h100"), std::string::npos) << text;
}

TEST(PlanCommand, VariesOneKey) {
  PlanOptions options;
  options.query.split = request_405b();
  options.vary = {"parallel.recompute=none,full,nonsense"};
  const Printed text = print(options);
  EXPECT_EQ(text.code, 0) << text.error;
  EXPECT_NE(text.out.find("does not fit\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("fits\n"), std::string::npos) << text.out;
  options.json = true;
  const auto json = nlohmann::json::parse(print(options).out);
  ASSERT_EQ(json.at("plans").size(), 3U);
  EXPECT_EQ(json.at("key"), "parallel.recompute");
  EXPECT_FALSE(json.at("plans")[0].at("fits").get<bool>());
  EXPECT_TRUE(json.at("plans")[1].at("fits").get<bool>());
  EXPECT_LT(json.at("plans")[1].at("peak_bytes"), json.at("plans")[0].at("peak_bytes"));
  EXPECT_GT(json.at("plans")[1].at("step_s"), json.at("plans")[0].at("step_s"));
  EXPECT_NE(json.at("plans")[2].at("refused").get<std::string>().find("nonsense"),
            std::string::npos);
  // Each row is the plan with that value.
  options.vary.clear();
  options.query.source.overrides = {"parallel.recompute=full"};
  const auto alone = nlohmann::json::parse(print(options).out);
  EXPECT_EQ(alone.at("time").at("step_s"), json.at("plans")[1].at("step_s"));
}

TEST(PlanCommand, RefusesToVaryWhatItCannot) {
  PlanOptions options;
  options.query.split = request_405b();
  for (const std::string vary :
       {"train.micro_batch", "=1,2", "train.micro_batch=", "a.b=1,2", "train.micro_batch=0,-1"}) {
    options.vary = {vary};
    const Printed printed = print(options);
    EXPECT_EQ(printed.code, 2) << vary;
    EXPECT_NE(printed.error, "") << vary;
  }
  options.vary = {"train.micro_batch=1,2"};
  options.check = true;
  EXPECT_EQ(print(options).code, 2);
  options.check = false;
  options.query.split.cluster.clear();
  EXPECT_NE(print(options).error.find("give --cluster"), std::string::npos);
}

TEST(PlanCommand, EmitsSettings) {
  PlanOptions options;
  options.query.split = request_405b();
  options.emit = "megatron";
  EXPECT_NE(print(options).out.find("--pipeline-model-parallel-size 16"), std::string::npos);
}

TEST(PlanCommand, SaysThatAModelNeedsACluster) {
  PlanOptions options;
  options.query.split.model = "llama-3-8b";
  const Printed printed = print(options);
  EXPECT_EQ(printed.code, 2);
  EXPECT_NE(printed.error.find("give --cluster"), std::string::npos);
}

TEST(PlanCommand, RefusesPicturesOfProgramsForAClusterOfAnySize) {
  PlanOptions options;
  options.query.split = request_405b();
  options.program = true;
  EXPECT_EQ(print(options).code, 2);
}

}  // namespace
}  // namespace tessera
