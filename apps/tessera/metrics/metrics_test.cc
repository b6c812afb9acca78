// `tessera metrics`: what it prints, writes and refuses.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "in_process.h"
#include "watch/event_file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() {
    std::string name = (fs::temp_directory_path() / "tessera-metrics-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    folder_ = name;
  }
  ~MetricsTest() override { fs::remove_all(folder_); }

  std::string write_run(const std::string& name, const std::string& text) {
    const fs::path run = folder_ / name;
    fs::create_directories(run);
    std::ofstream(run / "metrics.jsonl") << text;
    return run.string();
  }
  std::string run_of(const std::string& name, int steps, double loss) {
    std::string text;
    for (int step = 1; step <= steps; ++step) {
      text += fmt::format(R"({{"step":{},"time":{},"loss":{},"lr":0.001,"tokens_per_s":1500}})",
                          step, 1000 + step, loss / step) +
              "\n";
    }
    return write_run(name, text);
  }
  static std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
};

TEST_F(MetricsTest, ComparesRuns) {
  const std::string a = run_of("a", 20, 8), b = run_of("b", 30, 9);
  const Ended ended = run_in_process({"metrics", a, b});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  EXPECT_NE(ended.out.find("A " + a), std::string::npos);
  EXPECT_NE(ended.out.find("0.4000"), std::string::npos);  // 8 / 20
  EXPECT_NE(ended.out.find("0.3000"), std::string::npos);  // 9 / 30
  EXPECT_NE(ended.out.find("1,500"), std::string::npos);
  EXPECT_TRUE(
      std::all_of(ended.out.begin(), ended.out.end(), [](char c) { return (c & 0x80) == 0; }));
}

TEST_F(MetricsTest, ReadsARunInProgress) {
  const std::string run =
      write_run("a", "{\"step\":1,\"loss\":4}\nforeign\n{\"step\":2,\"loss\":3}\n{\"step\":3,\"lo");
  const Ended ended = run_in_process({"metrics", run, "--json"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, fmt::format("tessera: {}: line 2 is passed over: it is not JSON\n", run));
  const auto json = nlohmann::json::parse(ended.out);
  const auto& one = json.at("runs").at(0);
  EXPECT_EQ(one.at("final"), 3);
  EXPECT_EQ(one.at("growing"), true);
  EXPECT_EQ(one.at("bad_lines"), 1);
  EXPECT_EQ(one.at("curve"), nlohmann::json::parse("[[1.0,4.0],[2.0,3.0]]"));
}

TEST_F(MetricsTest, WritesPictureCsvAndEvents) {
  const std::string a = run_of("x/same", 20, 8), b = run_of("y/same", 30, 9);
  const fs::path svg = folder_ / "c.svg", csv = folder_ / "c.csv", events = folder_ / "tb";
  const Ended ended = run_in_process({"metrics", a, b, "-q", "--svg", svg.string(), "--csv",
                                      csv.string(), "--tensorboard", events.string()});
  EXPECT_EQ(ended.code, 0) << ended.err;
  const std::string picture = contents(svg);
  EXPECT_NE(picture.find("<polyline"), std::string::npos);
  EXPECT_NE(picture.find(a + ": 0.4 at step 20"), std::string::npos);
  const std::string table = contents(csv);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 51);
  size_t scalars = 0;
  for (const char* run : {"same", "same-2"}) {
    for (const auto& entry : fs::directory_iterator(events / run)) {
      EXPECT_TRUE(entry.path().filename().string().starts_with(kEventFilePrefix));
      scalars += read_event_file(contents(entry.path())).size();
    }
  }
  EXPECT_EQ(scalars, 50U);
}

TEST_F(MetricsTest, RefusesWhatIsNoRun) {
  const std::string a = run_of("a", 3, 8);
  const std::string empty = write_run("empty", ""), foreign = write_run("foreign", "hello\n");
  const auto refusal = [](const std::vector<std::string>& args) {
    const Ended ended = run_in_process(args);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_EQ(ended.out, "");
    return ended.err;
  };
  EXPECT_NE(refusal({"metrics"}).find("needs the directory of a run"), std::string::npos);
  EXPECT_NE(refusal({"metrics", a, a + "-2"}).find("does not exist"), std::string::npos);
  EXPECT_NE(refusal({"metrics", folder_.string()}).find("holds no metrics.jsonl"),
            std::string::npos);
  EXPECT_NE(refusal({"metrics", empty}).find("has no metrics yet"), std::string::npos);
  EXPECT_NE(refusal({"metrics", foreign}).find("line 1 is passed over"), std::string::npos);
  EXPECT_NE(refusal({"metrics", "/dev/zero"}).find("not a file of metrics"), std::string::npos);
  EXPECT_NE(refusal({"metrics", a, "--key", "los"}).find("did you mean 'loss'?"),
            std::string::npos);
  EXPECT_NE(refusal({"metrics", a, "--width", "1e9"}).find("use at most 10000"), std::string::npos);
  EXPECT_NE(refusal({"metrics", a, "--smooth", "1"}).find("--smooth is 1"), std::string::npos);
  EXPECT_NE(refusal({"metrics", a, "--json", "--csv", "-"}).find("both go to standard output"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
