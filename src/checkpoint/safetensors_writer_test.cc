#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "base/testing/test_folder.h"
#include "checkpoint/output_file.h"
#include "checkpoint/safetensors.h"

namespace tessera {
namespace {

using testing::message_of;
using testing::read_file;
using testing::TestFolder;

const std::vector<float> kValues{1, 2};

TensorToWrite tensor(const std::string& name) {
  return {name, StoredType::kF32, {2}, std::as_bytes(std::span(kValues))};
}

void write_one(const std::string& path, const TensorToWrite& one) {
  write_safetensors(path, {&one, 1}, {});
}

int64_t num_files(const TestFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()),
                       std::filesystem::directory_iterator());
}

// Makes writes beyond `bytes` fail with EFBIG, as a full disk fails with ENOSPC.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(SafetensorsWriterTest, AFailedWriteLeavesTheOldFileAndNoTemporary) {
  const TestFolder folder;
  const std::string path = folder.write("a.safetensors", "old");
  const std::vector<float> many(10'000, 1.0F);
  const TensorToWrite large{"a", StoredType::kF32, {10'000}, std::as_bytes(std::span(many))};
  std::string message;
  {
    const FileSizeLimit limit(20'000);
    message = message_of<Error>([&] { write_one(path, large); });
  }
  EXPECT_NE(message.find("cannot write '" + path + "': File too large"), std::string::npos)
      << message;
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(num_files(folder), 1);
  write_one(path, large);
  EXPECT_EQ(SafetensorsFile::open(path).names(), std::vector<std::string>{"a"});
}

TEST(SafetensorsWriterTest, TheSizeIsKnownBefore) {
  const TestFolder folder;
  const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  std::vector<TensorToWrite> tensors;
  std::vector<TensorHead> heads;
  for (const char* name : {"b", "a", "a tensor with a longer name than the others have"}) {
    tensors.push_back(tensor(name));
    heads.push_back({name, StoredType::kF32, {2}});
    const std::string path = folder.path(fmt::format("{}.safetensors", heads.size()));
    write_safetensors(path, tensors, metadata);
    EXPECT_EQ(safetensors_file_bytes(heads, metadata),
              static_cast<int64_t>(std::filesystem::file_size(path)));
  }
}

TEST(SafetensorsWriterTest, ReportsPlacesItCannotWrite) {
  const TestFolder folder;
  EXPECT_NE(
      message_of<Error>([&] { write_one(folder.path("no/a"), tensor("a")); }).find("No such file"),
      std::string::npos);
  folder.write("file", "");
  EXPECT_NE(message_of<Error>([&] {
              write_one(folder.path("file/a"), tensor("a"));
            }).find("Not a directory"),
            std::string::npos);
  std::filesystem::create_directories(folder.path("c/keep"));
  EXPECT_THROW(write_one(folder.path("c"), tensor("a")), Error);
  EXPECT_EQ(num_files(folder), 2) << "a temporary file stayed";
}

TEST(SafetensorsWriterTest, NeverWritesThroughALink) {
  const TestFolder folder;
  const std::string victim = folder.write("victim", "precious");
  std::filesystem::create_symlink(victim, folder.path("a.tmp"));
  std::filesystem::create_symlink(victim, folder.path("a"));
  write_one(folder.path("a"), tensor("a"));
  EXPECT_EQ(read_file(victim), "precious");
  EXPECT_EQ(SafetensorsFile::open(folder.path("a")).names(), std::vector<std::string>{"a"});
}

TEST(SafetensorsWriterTest, TheUmaskDecidesWhoMayRead) {
  const TestFolder folder;
  const mode_t before = ::umask(0027);
  write_one(folder.path("a"), tensor("a"));
  ::umask(before);
  EXPECT_EQ(std::filesystem::status(folder.path("a")).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write |
                std::filesystem::perms::group_read);
}

// The second neither unlinks what the first is writing nor renames it.
TEST(SafetensorsWriterTest, TwoWritersOfOneFileDoNotMeet) {
  const TestFolder folder;
  const std::string path = folder.path("a");
  OutputFile first(path), second(path);
  first.write(std::as_bytes(std::span(std::string_view("first"))));
  second.write(std::as_bytes(std::span(std::string_view("second"))));
  second.commit();
  EXPECT_EQ(read_file(path), "second");
  first.commit();
  EXPECT_EQ(read_file(path), "first");
  EXPECT_EQ(num_files(folder), 1);
}

TEST(SafetensorsWriterTest, KnowsWhatAKilledWriterLeaves) {
  const TestFolder folder;
  const OutputFile cut_off(folder.path("a"));
  const auto left = std::filesystem::directory_iterator(folder.path())->path().filename().string();
  EXPECT_TRUE(OutputFile::is_leftover(left, "a"));
  const std::vector<std::string> others = {"a", "a.tmp", "a.mine.tmp", "b" + left.substr(1),
                                           left + "x"};
  for (const std::string& other : others) {
    EXPECT_FALSE(OutputFile::is_leftover(other, "a")) << other;
  }
}

TEST(SafetensorsWriterTest, RefusesImpossibleTensors) {
  const TestFolder folder;
  const std::string path = folder.path("a");
  EXPECT_THROW(write_one(path, tensor("__metadata__")), InternalError);
  EXPECT_THROW(write_one(path, tensor(std::string(4097, 'n'))), InternalError);
  EXPECT_THROW(write_one(path, tensor(std::string("a\0b", 3))), InternalError);
  EXPECT_THROW(write_one(path, tensor("\xff")), Error);
  TensorToWrite wrong = tensor("a");
  wrong.shape = {3};
  EXPECT_THROW(write_one(path, wrong), InternalError);
  wrong.shape = {1, 1, 1, 1, 1, 1, 1, 1, 2};
  EXPECT_THROW(write_one(path, wrong), InternalError);
  std::vector<TensorToWrite> twice{tensor("a"), tensor("b"), tensor("a")};
  twice[2].type = StoredType::kI32;  // apart in file order
  EXPECT_THROW(write_safetensors(path, twice, {}), InternalError);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(num_files(folder), 0);
}

}  // namespace
}  // namespace tessera
