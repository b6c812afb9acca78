// Rows 17 and 18 of the matrix of faults, as `tessera checkpoint` answers them: whatever became of
// the bytes of a checkpoint, it says which file, and exits with 65 or 66.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/testing/share.h"
#include "base/testing/test_folder.h"
#include "in_process.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::read_file;

class DamagedCheckpointTest : public ::testing::Test {
 protected:
  DamagedCheckpointTest() {
    fs::copy(std::string(TESSERA_SOURCE_DIR) + "/tests/data/checkpoints", folder_.path("c"),
             fs::copy_options::recursive);
    for (const auto& entry : fs::directory_iterator(newest())) files_.push_back(entry.path());
    std::sort(files_.begin(), files_.end());
  }
  [[nodiscard]] std::string newest() const { return folder_.path("c/step-00000024"); }
  [[nodiscard]] Ended verify() const {
    return run_in_process({"checkpoint", "verify", newest(), "--deep"});
  }
  static void write(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  // Exits with one of the codes and names the file.
  void expect_found(const fs::path& path, std::initializer_list<int> codes) const {
    const Ended ended = verify();
    EXPECT_TRUE(std::find(codes.begin(), codes.end(), ended.code) != codes.end()) << ended.code;
    EXPECT_NE(ended.err.find(newest()), std::string::npos) << ended.err;
    if (!path.empty()) {
      // Sums that do not fit are said of the shard that they are of, or of COMMIT, which has
      // theirs.
      const std::string stem = path.stem().string();
      EXPECT_TRUE(ended.err.find(stem) != std::string::npos ||
                  ended.err.find("COMMIT") != std::string::npos)
          << path << ": " << ended.err;
    }
  }

  testing::TestFolder folder_;
  std::vector<fs::path> files_;
};

TEST_F(DamagedCheckpointTest, Row17EveryFlippedBitIsFoundAndItsFileNamed) {
  ASSERT_EQ(files_.size(), 7U);
  ASSERT_EQ(verify().code, 0);
  std::mt19937_64 dice(static_cast<uint64_t>(testing::rotation()) + 17);
  for (int flip = 0; flip < (testing::tries_all() ? 1000 : 350); ++flip) {
    const fs::path& path = files_[static_cast<size_t>(flip) % files_.size()];
    const std::string whole = read_file(path.string());
    const size_t at = dice() % whole.size();
    const auto mask = static_cast<char>(1 << dice() % 8);
    SCOPED_TRACE(path.filename().string() + " byte " + std::to_string(at));
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ mask);
    write(path, bytes);
    expect_found(path, {65});
    write(path, whole);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(verify().code, 0) << "put right again, it is whole";
}

TEST_F(DamagedCheckpointTest, Row18EveryOtherLengthIsFound) {
  for (const fs::path& path : files_) {
    const std::string whole = read_file(path.string());
    for (const size_t length : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{55},
                                whole.size() / 2, whole.size() - 4, whole.size() - 1}) {
      SCOPED_TRACE(path.filename().string() + " cut to " + std::to_string(length));
      write(path, whole.substr(0, length));
      expect_found(path, {65});
    }
    for (const std::string& more : {std::string("\n"), std::string(1, '\0'), whole}) {
      SCOPED_TRACE(path.filename().string() + " with more");
      write(path, whole + more);
      expect_found(path, {65});
    }
    write(path, whole);
  }
  EXPECT_EQ(verify().code, 0);
}

TEST_F(DamagedCheckpointTest, Row18MissingSwappedAndDoubledFilesAreFound) {
  for (const fs::path& path : files_) {
    SCOPED_TRACE(path.filename().string() + " removed");
    fs::rename(path, folder_.path("aside"));
    expect_found(path, {66});
    fs::rename(folder_.path("aside"), path);
  }
  for (const std::string end : {".safetensors", ".crc"}) {
    const fs::path first = newest() + "/data-0000-of-0002" + end;
    const fs::path second = newest() + "/data-0001-of-0002" + end;
    const std::string one = read_file(first.string()), other = read_file(second.string());
    write(first, other);
    expect_found("", {65});  // doubled
    write(second, one);
    expect_found("", {65});  // swapped
    write(first, one);
    write(second, other);
  }
  fs::copy(newest() + "/data-0000-of-0002.safetensors",
           newest() + "/data-0002-of-0003.safetensors");
  expect_found("", {65});
}

// Another save of the same run has shards of the same names and sizes.
TEST_F(DamagedCheckpointTest, Row19AShardOfAnotherSaveIsFound) {
  for (const std::string name : {"data-0000-of-0002.safetensors", "data-0000-of-0002.crc",
                                 "manifest.json", "state.json", "COMMIT"}) {
    SCOPED_TRACE(name);
    const fs::path mine = newest() + "/" + name;
    const std::string whole = read_file(mine.string());
    write(mine, read_file(folder_.path("c/step-00000012/" + name)));
    expect_found("", {65});
    write(mine, whole);
  }
  const std::string both[] = {"data-0000-of-0002.safetensors", "data-0000-of-0002.crc"};
  for (const std::string& name : both) {
    write(newest() + "/" + name, read_file(folder_.path("c/step-00000012/" + name)));
  }
  expect_found("", {65});  // with the sums that fit it
}

}  // namespace
}  // namespace tessera
