#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "all_commands.h"
#include "base/error.h"
#include "cli/read_text.h"
#include "in_process.h"
#include "plan/report/plan_json.h"
#include "spec/run_file/run_source.h"

namespace tessera {
namespace {

Ended run(std::vector<std::string> args) {
  args.insert(args.begin(), "search");
  return run_in_process(args);
}

std::vector<std::string> with(const std::string& flag, const std::string& value) {
  std::vector<std::string> args = {"--model",        "llama-3-8b", "--cluster", "h100-8",
                                   "--global-batch", "8",          "--seq-len", "2048"};
  args.push_back(flag);
  args.push_back(value);
  return args;
}

TEST(SearchCommandTest, WritesRunFilesThatPlanReads) {
  const std::string folder = ::testing::TempDir() + "/tessera_search_plans";
  std::filesystem::remove_all(folder);
  const Ended ended = run(with("--out", folder));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out.find("--out plans"), std::string::npos) << "that was done";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    RunSource source;
    source.file = entry.path().string();
    EXPECT_EQ(source.load(read_text).parallel.world(), 8);
    ++files;
  }
  EXPECT_GT(files, 3);
  std::filesystem::remove_all(folder);
}

// Settings that a system does not have are no neighbours of a plan, however much memory they need.
TEST(SearchCommandTest, NothingLacksLessThanNothing) {
  for (const std::string system : {"deepspeed", "nanotron", "megatron"}) {
    const Ended ended = run({"--model", "llama-2-7b", "--cluster", "a100-16", "--global-batch",
                             "64", "--seq-len", "4096", "--top", "2", "--for", system});
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out.find("lacks -"), std::string::npos) << ended.out;
  }
}

TEST(SearchCommandTest, SaysTheSameTwice) {
  EXPECT_EQ(run(with("--threads", "1")).out, run(with("--threads", "2")).out);
}

TEST(SearchCommandTest, PrintsJson) {
  std::vector<std::string> args = with("--top", "3");
  args.emplace_back("--json");
  const Ended ended = run(args);
  const nlohmann::json json = nlohmann::json::parse(ended.out);
  EXPECT_EQ(json.at("schema_version"), kPlanSchemaVersion);
  EXPECT_EQ(json.at("kind"), "search");
  ASSERT_EQ(json.at("plans").size(), 3U);
  const nlohmann::json& time = json.at("plans")[0].at("time");
  EXPECT_NEAR(time.at("forward_s").get<double>() + time.at("backward_s").get<double>(),
              time.at("compute_s").get<double>(), 1e-9);
}

TEST(SearchCommandTest, ExitsWithThreeWhereNothingFits) {
  const Ended ended = run({"--model", "llama-3-405b", "--cluster", "pc-4x24", "--global-batch", "4",
                           "--seq-len", "2048"});
  EXPECT_EQ(ended.code, static_cast<int>(ExitCode::kDoesNotFit));
  EXPECT_NE(ended.out.find("nothing fits"), std::string::npos);
}

// A terminal at which somebody presses ^C as soon as the progress shows.
class ImpatientTerminal : public std::streambuf {
 public:
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  int_type overflow(int_type c) override {
    if (text_.empty()) std::raise(SIGINT);
    text_ += traits_type::to_char_type(c);
    return c;
  }
  std::string text_;
};

TEST(SearchCommandTest, StopsAtAnInterruptWithTheBestSoFar) {
  ImpatientTerminal terminal;
  std::ostringstream out;
  std::ostream err(&terminal);
  Console console{.out = out, .err = err};
  console.err_is_terminal = true;
  const int code = run_cli({"search", "--model", "llama-3-70b", "--cluster", "a100-64",
                            "--global-batch", "128", "--seq-len", "4096", "--top", "3"},
                           console, {}, add_all_commands);
  EXPECT_EQ(code, 130);
  EXPECT_NE(out.str().find("stopped after"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("tp "), std::string::npos);
  EXPECT_NE(terminal.text().find("configurations"), std::string::npos);
}

TEST(SearchCommandTest, ShowsProgressOnATerminalOnly) {
  EXPECT_EQ(run(with("--top", "1")).err, "");
}

TEST(SearchCommandTest, CostsAreOfThePriceThatIsGiven) {
  std::vector<std::string> args = with("--usd-per-hour", "7.5");
  args.insert(args.end(), {"--objective", "cost", "--json"});
  const nlohmann::json json = nlohmann::json::parse(run(args).out);
  EXPECT_EQ(json.at("usd_per_device_hour").at("value"), 7.5);
  const nlohmann::json& first = json.at("costs").front();
  EXPECT_NEAR(first.at("usd").get<double>(), first.at("device_seconds").get<double>() / 3600 * 7.5,
              1e-12);
}

TEST(SearchCommandTest, RefusesNonsenseWithAMessage) {
  for (const auto& [flag, value] :
       std::vector<std::pair<std::string, std::string>>{{"--global-batch", "0"},
                                                        {"--global-batch", "-5"},
                                                        {"--global-batch", "1000000000000000000"},
                                                        {"--seq-len", "1000000000000000000"},
                                                        {"--seq-len", "x"},
                                                        {"--model", "lama-3-8b"},
                                                        {"--cluster", "h100-0"},
                                                        {"--cluster", "h1000"},
                                                        {"--tp", "7"},
                                                        {"--zero", "9"},
                                                        {"--objective", "fame"}}) {
    const Ended ended = run(with(flag, value));
    EXPECT_EQ(ended.code, static_cast<int>(ExitCode::kUsage)) << flag << ' ' << value << ended.out;
    EXPECT_NE(ended.err.find("error"), std::string::npos);
  }
  EXPECT_EQ(run({}).code, static_cast<int>(ExitCode::kUsage));
}

}  // namespace
}  // namespace tessera
