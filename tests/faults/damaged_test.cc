// Rows 17, 18 and 19 of the matrix of faults, as `tessera train --resume` answers them: what is
// damaged is not gone on from, what is another's is refused with both values.
#include <fstream>
#include <functional>
#include <random>

#include "base/crc32c.h"
#include "base/sha256.h"
#include "faults/fault_run.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

class DamagedRunTest : public FaultTest {
 protected:
  // A run that was cut off after its sixth step: saves after 3 and 6.
  void begin() {
    ASSERT_EQ(train("", "--threads").code, 0);
    fs::remove_all(folder_.path("out/checkpoints/step-00000008"));
    // keep = 2 has removed the first one.
    ASSERT_TRUE(fs::exists(newest()));
    fs::remove(folder_.path("out/model.safetensors"));
  }
  [[nodiscard]] std::string newest() const { return folder_.path("out/checkpoints/step-00000006"); }
  static void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  CommandResult resume(const std::string& flags) {
    return run("train run.toml -q --threads --set logging.run_dir=out --resume " + flags);
  }
  // The same run with the save after step 3 kept, and a bad bit in that after step 6, in what only
  // rank 1 wrote.
  void begin_with_bad_data() {
    ASSERT_EQ(train("", "--threads --set checkpoint.keep=9").code, 0);
    fs::remove_all(folder_.path("out/checkpoints/step-00000008"));
    fs::remove(folder_.path("out/model.safetensors"));
    flip_data_in(newest());
  }
  static void flip_data_in(const std::string& folder) {
    flip_last_byte(folder + "/data-0001-of-0002.safetensors");
  }
  static void flip_last_byte(const std::string& path) {
    std::string bytes = read_file(path);
    bytes.back() ^= 1;
    write(path, bytes);
  }
  // The log of the run has the checkpoint, the file and the block.
  void expect_told() {
    const std::vector<nlohmann::json> told = events("checkpoint damaged");
    ASSERT_FALSE(told.empty());
    EXPECT_EQ(told.front().at("step"), 6);
    EXPECT_NE(told.front().at("checkpoint").get<std::string>().find("step-00000006"),
              std::string::npos);
    EXPECT_NE(told.front().at("reason").get<std::string>().find(
                  "data-0001-of-0002.safetensors' is damaged: block 0"),
              std::string::npos)
        << told.front();
  }
  // Edits state.json, and makes all hashes over it right again.
  void edit_state(const std::function<void(nlohmann::json&)>& edit) {
    edit_json("state.json", edit);
  }
  void edit_json(const std::string& name, const std::function<void(nlohmann::json&)>& edit) {
    nlohmann::json json = nlohmann::json::parse(read_file(newest() + "/" + name));
    edit(json);
    write(newest() + "/" + name, json.dump());
    const std::string commit = read_file(newest() + "/COMMIT");
    nlohmann::json head = nlohmann::json::parse(commit.substr(0, commit.find('\n')));
    head[name.substr(0, name.find('.'))] = sha256_hex(json.dump());
    const std::string line = head.dump() + "\n";
    write(newest() + "/COMMIT", line + fmt::format("crc32c {:08x}\n", crc32c(line)));
  }
};

// Every class of bytes: of each file one bit, wherever it lies. The one before is used instead.
TEST_F(DamagedRunTest, Row17AFlippedBitIsNotGoneOnFrom) {
  ASSERT_EQ(train("", "--threads --set checkpoint.keep=9").code, 0);
  fs::remove_all(folder_.path("out/checkpoints/step-00000008"));
  const fs::path saved = folder_.path("saved");
  fs::copy(folder_.path("out/checkpoints"), saved, fs::copy_options::recursive);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(newest())) {
    names.push_back(entry.path().filename());
  }
  ASSERT_EQ(names.size(), 7U);
  std::mt19937_64 dice(std::random_device{}());
  for (const std::string& name : names) {
    fs::remove_all(folder_.path("out/checkpoints"));
    fs::copy(saved, folder_.path("out/checkpoints"), fs::copy_options::recursive);
    std::string bytes = read_file(newest() + "/" + name);
    const size_t at = dice() % bytes.size();
    bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(1 << dice() % 8));
    SCOPED_TRACE(fmt::format("{} byte {}", name, at));
    write(newest() + "/" + name, bytes);
    // Data is compared as it is read: what is named is refused, block and all.
    const CommandResult named =
        run("train run.toml -q --threads --set logging.run_dir=other --resume "
            "out/checkpoints/step-00000006");
    EXPECT_EQ(named.code, 65) << named.err;
    EXPECT_NE(named.err.find("step-00000006"), std::string::npos) << named.err;
    EXPECT_FALSE(fs::exists(folder_.path("other/model.safetensors")));
    fs::remove_all(folder_.path("other"));
    const CommandResult automatic = resume("auto");
    ASSERT_EQ(automatic.code, 0) << automatic.err;
    EXPECT_NE(automatic.err.find("step-00000006 is passed over"), std::string::npos)
        << automatic.err;
    EXPECT_NE(automatic.err.find("goes on after step 3"), std::string::npos) << automatic.err;
    EXPECT_TRUE(read_file(folder_.path("out/model.safetensors")) == undisturbed().weights);
  }
}

// Looking at headers and sizes finds nothing wrong with a bad block of data: one rank finds it when
// it reads, and all take the checkpoint before.
TEST_F(DamagedRunTest, Row17ABadBlockOfDataIsPassedOverByAllRanks) {
  begin_with_bad_data();
  const CommandResult named =
      run("train run.toml -q --threads --set logging.run_dir=other --resume "
          "out/checkpoints/step-00000006");
  EXPECT_EQ(named.code, 65) << named.err;
  EXPECT_NE(named.err.find("data-0001-of-0002.safetensors' is damaged: block 0"), std::string::npos)
      << named.err;
  const CommandResult result = resume("auto");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("data-0001-of-0002.safetensors' is damaged: block 0"),
            std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("goes on after step 3"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("goes on after step 6"), std::string::npos) << result.err;
  expect_same_run();
  expect_told();
}

// A folder of checkpoints stands for the newest that can be used.
TEST_F(DamagedRunTest, Row17ABadBlockOfDataInAFolderOfCheckpointsIsPassedOver) {
  begin_with_bad_data();
  const CommandResult result =
      run("train run.toml -q --threads --set logging.run_dir=other --resume out/checkpoints");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("goes on after step 3"), std::string::npos) << result.err;
  EXPECT_TRUE(read_file(folder_.path("other/model.safetensors")) == undisturbed().weights);
}

// Ranks as processes that are started again: the first ones are lost while they load, those after
// them find the same damage.
TEST_F(DamagedRunTest, Row17ABadBlockOfDataDoesNotEndARunWithRestarts) {
  begin_with_bad_data();
  Command command(
      folder_, words_of("train run.toml -q --set logging.run_dir=out --resume auto --restarts 2"),
      with_fault("load:rank=0,at=2,act=kill"));
  const CommandResult result = command.finish();
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("goes on after step 3"), std::string::npos) << result.err;
  EXPECT_EQ(events("restart").size(), 1U);
  expect_same_run();
  expect_told();
}

// Saves between the one that it goes on from and the damaged ones: these take no place of theirs.
TEST_F(DamagedRunTest, Row17WhatIsSavedNextIsNotRemovedForDamagedOnes) {
  ASSERT_EQ(train("", "--threads --set checkpoint.keep=9").code, 0);
  write(folder_.path("out/checkpoints/step-00000003.pin"), "");
  flip_data_in(newest());
  flip_data_in(folder_.path("out/checkpoints/step-00000008"));
  Command killed(folder_,
                 words_of("train run.toml -q --set logging.run_dir=out --resume auto --set "
                          "checkpoint.every=2"),
                 with_fault("step.begin:step=5,act=kill"));
  EXPECT_NE(killed.finish().code, 0);
  const CommandResult result = resume("auto");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("goes on after step 4"), std::string::npos) << result.err;
  expect_same_run();
}

// All that there is: to begin anew would lose them.
TEST_F(DamagedRunTest, Row17BadDataInAllCheckpointsEndsTheRun) {
  begin_with_bad_data();
  flip_data_in(folder_.path("out/checkpoints/step-00000003"));
  const CommandResult result = resume("auto");
  EXPECT_EQ(result.code, 65) << result.err;
  EXPECT_NE(result.err.find("step-00000006"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(folder_.path("out/model.safetensors")));
}

// Without its sums a shard cannot be told from a damaged one.
TEST_F(DamagedRunTest, Row18MissingSumsAreReadOnlyWhereThatIsAllowed) {
  begin();
  fs::remove(newest() + "/data-0001-of-0002.crc");
  CommandResult result = resume("out/checkpoints/step-00000006");
  EXPECT_EQ(result.code, 66) << result.err;
  EXPECT_NE(result.err.find("data-0001-of-0002.crc' is missing"), std::string::npos) << result.err;
  EXPECT_EQ(run("checkpoint verify out").code, 66);
  result = run("checkpoint verify out --allow-unchecked --deep");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("data-0001-of-0002.safetensors has no checksums"), std::string::npos)
      << result.out;
  EXPECT_EQ(run("checkpoint diff out out --allow-unchecked").code, 0);
  result = run("train run.toml -q --threads --set logging.run_dir=out --allow-unchecked");
  EXPECT_EQ(result.code, 2) << result.err;
  // What has sums is compared all the same.
  const std::string shard = newest() + "/data-0000-of-0002.safetensors";
  const std::string whole = read_file(shard);
  flip_last_byte(shard);
  result = resume("out/checkpoints/step-00000006 --allow-unchecked");
  EXPECT_EQ(result.code, 65) << result.err;
  write(shard, whole);
  result = resume("out/checkpoints/step-00000006 --allow-unchecked");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("data-0001-of-0002.safetensors has no checksums: it is read unchecked"),
            std::string::npos)
      << result.err;
  EXPECT_TRUE(read_file(folder_.path("out/model.safetensors")) == undisturbed().weights);
}

TEST_F(DamagedRunTest, Row17TheOneBeforeIsUsedWithTheSameBits) {
  for (const std::string name : {"COMMIT", "manifest.json", "state.json"}) {
    SCOPED_TRACE(name);
    ASSERT_EQ(train("", "--threads --set checkpoint.keep=9").code, 0);
    fs::remove_all(folder_.path("out/checkpoints/step-00000008"));
    std::string bytes = read_file(newest() + "/" + name);
    bytes[bytes.size() / 2] ^= 1;
    write(newest() + "/" + name, bytes);
    const CommandResult result = resume("auto");
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.err.find("step-00000006 is passed over"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find(name), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("goes on after step 3"), std::string::npos) << result.err;
    EXPECT_TRUE(read_file(folder_.path("out/model.safetensors")) == undisturbed().weights);
  }
}

TEST_F(DamagedRunTest, Row18WhatIsMissingOrCutEndsWithItsCode) {
  begin();
  const std::string shard = newest() + "/data-0000-of-0002.safetensors";
  const std::string whole = read_file(shard);
  write(shard, whole.substr(0, whole.size() - 64));
  CommandResult result = resume("out/checkpoints/step-00000006");
  EXPECT_EQ(result.code, 65) << result.err;
  EXPECT_NE(result.err.find(fmt::format("it has {} bytes, but should have {}", whole.size() - 64,
                                        whole.size())),
            std::string::npos)
      << result.err;
  fs::remove(shard);
  result = resume("out/checkpoints/step-00000006");
  EXPECT_EQ(result.code, 66) << result.err;
  write(shard, whole);
  fs::remove(newest() + "/COMMIT");
  result = resume("out/checkpoints/step-00000006");
  EXPECT_EQ(result.code, 66) << result.err;
  EXPECT_NE(result.err.find("has no COMMIT: the save was never finished"), std::string::npos);
}

TEST_F(DamagedRunTest, Row19AnotherVersionModelOrTokenizerIsRefusedWithBothValues) {
  begin();
  const std::string commit = read_file(newest() + "/COMMIT");
  const std::string state = read_file(newest() + "/state.json");
  const auto refused = [&](int code, const std::string& words) {
    const CommandResult result = resume("auto");
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
    write(newest() + "/COMMIT", commit);
    write(newest() + "/state.json", state);
  };
  edit_state([](nlohmann::json& j) { j["version"] = {2, 0}; });
  refused(76, "version 2.0 of the format of checkpoints, but this Tessera reads version 1");
  edit_state([](nlohmann::json& j) { j["identity"]["model.hidden"] = 32; });
  refused(2, "model.hidden is 32 there, but 16 in this run");
  edit_state([](nlohmann::json& j) { j["identity"]["tokenizer"] = std::string(64, 'a'); });
  refused(2, "tokenizer is \"" + std::string(64, 'a') + "\" there, but \"\" in this run");
  edit_state([](nlohmann::json& j) { j["run"] = "another"; });
  refused(65, "it is of run another");
  edit_state([](nlohmann::json& j) { j.erase("identity"); });
  refused(65, "it does not say which run it is of");
  edit_state([](nlohmann::json& j) { j["loss_scale"] = "none"; });
  refused(65, "is damaged: ");
  // A key that is younger than the checkpoint had its default then.
  edit_state([](nlohmann::json& j) { j["identity"].erase("model.sliding_window"); });
  const CommandResult other = resume("auto --set model.sliding_window=4");
  EXPECT_EQ(other.code, 2) << other.err;
  EXPECT_NE(other.err.find("model.sliding_window is 0 there, but 4 in this run"), std::string::npos)
      << other.err;
  edit_state([](nlohmann::json& j) { j["identity"].erase("train.seed"); });
  refused(2, "train.seed is null there, but 1 in this run");
  edit_state([](nlohmann::json& j) {
    for (const char* key : {"model.sliding_window", "model.rope_scaling", "train.lanes"}) {
      j["identity"].erase(key);
    }
  });
  // Without them it is gone on from.
  const CommandResult result = resume("auto");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(read_file(folder_.path("out/model.safetensors")) == undisturbed().weights);
}

// A shard of another run, which has the same names, sizes and tensors.
TEST_F(DamagedRunTest, Row19AShardOfAnotherRunIsRefused) {
  begin();
  const CommandResult other =
      run("train run.toml -q --threads --set logging.run_dir=theirs --set train.seed=5 "
          "--set train.steps=6");
  ASSERT_EQ(other.code, 0) << other.err;
  for (const std::string end : {"safetensors", "crc"}) {
    const std::string name = "/data-0001-of-0002." + end;
    fs::copy(folder_.path("theirs/checkpoints/step-00000006") + name, newest() + name,
             fs::copy_options::overwrite_existing);
  }
  const CommandResult result = resume("out/checkpoints/step-00000006");
  EXPECT_EQ(result.code, 65) << result.err;
  EXPECT_NE(result.err.find("data-0001-of-0002"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(folder_.path("out/model.safetensors")));
}

}  // namespace
}  // namespace tessera::testing
