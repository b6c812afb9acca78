#include "checkpoint/checkpoint_command.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/testing/test_folder.h"
#include "in_process.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A run directory with the checkpoints of tests/data.
class CheckpointCommandTest : public ::testing::Test {
 protected:
  CheckpointCommandTest() {
    fs::create_directories(folder_.path("empty"));
    fs::create_directories(folder_.path("run"));
    fs::copy(std::string(TESSERA_SOURCE_DIR) + "/tests/data/checkpoints",
             folder_.path("run/checkpoints"), fs::copy_options::recursive);
  }

  [[nodiscard]] static Ended run(std::vector<std::string> args) {
    args.insert(args.begin(), "checkpoint");
    return run_in_process(args);
  }
  [[nodiscard]] std::string file(const std::string& name) const {
    return folder_.path("run/checkpoints/" + name);
  }
  void flip(const std::string& name, int64_t at) const {
    std::string bytes = testing::read_file(file(name));
    bytes[static_cast<size_t>(at)] = static_cast<char>(bytes[static_cast<size_t>(at)] ^ 1);
    std::ofstream(file(name), std::ios::binary) << bytes;
  }

  testing::TestFolder folder_;
};

TEST_F(CheckpointCommandTest, ListsWhatIsThere) {
  fs::create_directory(file(".inprogress-4f1c02a9-2-s30"));
  flip("step-00000012/state.json", 9);
  const Ended text = run({"ls", folder_.path("run")});
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("step-00000012               damaged"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("in progress"), std::string::npos);
  EXPECT_NE(text.err.find("state.json' is damaged"), std::string::npos) << text.err;
  const auto json = nlohmann::json::parse(run({"ls", file(""), "--json"}).out);
  ASSERT_EQ(json.at("checkpoints").size(), 3U);
  EXPECT_EQ(json.at("checkpoints")[2].at("step"), 24);
  EXPECT_EQ(json.at("checkpoints")[2].at("tensors"), 4);
  EXPECT_TRUE(json.at("checkpoints")[0].at("step").is_null());
  EXPECT_EQ(run({"ls", folder_.path("empty")}).code, 66);
  EXPECT_EQ(run({"ls", folder_.path("none")}).code, 66);
  EXPECT_EQ(run({"ls"}).code, 2);
}

TEST_F(CheckpointCommandTest, VerifiesAndNamesTheBlock) {
  const std::string one = file("step-00000024");
  EXPECT_EQ(run({"verify", one, "--deep"}).code, 0);
  flip("step-00000024/data-0001-of-0002.safetensors",
       static_cast<int64_t>(fs::file_size(one + "/data-0001-of-0002.safetensors")) - 3);
  EXPECT_EQ(run({"verify", one}).code, 0);  // data is not read
  const Ended deep = run({"verify", folder_.path("run"), "--deep"});
  EXPECT_EQ(deep.code, 65);
  EXPECT_NE(deep.err.find("data-0001-of-0002.safetensors' is damaged: block 0 (bytes 0 to"),
            std::string::npos)
      << deep.err;
  const auto json = nlohmann::json::parse(run({"verify", one, "--deep", "--json"}).out);
  EXPECT_EQ(json.at("ok"), false);
  EXPECT_EQ(json.at("problems")[0].at("code"), 65);
  fs::remove(one + "/COMMIT");
  EXPECT_EQ(run({"verify", one}).code, 66);
}

TEST_F(CheckpointCommandTest, ShowsTheNewestGoodOne) {
  EXPECT_NE(run({"show", folder_.path("run")}).out.find("step-00000024"), std::string::npos);
  flip("step-00000024/manifest.json", 30);
  const Ended shown = run({"show", folder_.path("run")});
  EXPECT_EQ(shown.code, 0);
  EXPECT_NE(shown.out.find("step-00000012"), std::string::npos);
  const auto json = nlohmann::json::parse(run({"show", file("step-00000012"), "--json"}).out);
  EXPECT_EQ(json.at("state").at("samples"), 96);
  EXPECT_EQ(json.at("tensors")[0].at("chunks"), 2);
  EXPECT_EQ(run({"show", file("step-00000024")}).code, 65);
}

TEST_F(CheckpointCommandTest, ComparesAllValues) {
  const Ended same = run({"diff", file("step-00000012"), file("step-00000012/")});
  EXPECT_EQ(same.code, 0);
  EXPECT_EQ(same.out, "4 of 4 tensors are the same, bit for bit\n");
  const Ended different = run({"diff", file("step-00000012"), folder_.path("run"), "--json"});
  EXPECT_EQ(different.code, 1);
  const auto json = nlohmann::json::parse(different.out);
  EXPECT_EQ(json.at("tensors").size(), 3U);
  EXPECT_EQ(json.at("tensors")[0].at("largest"), 1.5);
}

}  // namespace
}  // namespace tessera
