#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/testing/message_of.h"
#include "base/testing/test_folder.h"
#include "checkpoint/store/file_ops.h"
#include "checkpoint/store/saves.h"
#include "checkpoint/testing/sample_save.h"

namespace tessera {
namespace {

using namespace testing;  // the samples

ExitCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::kOk;
}

TEST(RealFilesTest, MakesFilesThatOnlyTheOwnerReads) {
  const TestFolder folder;
  const std::unique_ptr<FileOps> files = real_files(folder.path("a/b"), /*make=*/true);
  files->make_folder("in");
  files->create({"in", "file"})->write(std::as_bytes(std::span("abc", 3)));
  struct stat status {};
  ASSERT_EQ(::stat(folder.path("a/b/in/file").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U & ~umask(0));
  ASSERT_EQ(::stat(folder.path("a/b/in").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  EXPECT_EQ(read_small_file(*files, {"in", "file"}, 3), "abc");
  EXPECT_EQ(code_of([&] { read_small_file(*files, {"in", "file"}, 2); }), ExitCode::kCorrupt);
  EXPECT_EQ(code_of([&] { (void)files->create({"in", "file"}); }), ExitCode::kIo);
  EXPECT_EQ(code_of([&] { (void)files->open({"in", "none"}); }), ExitCode::kAbsent);
  EXPECT_EQ(code_of([&] { (void)files->open({"none", "file"}); }), ExitCode::kAbsent);
  EXPECT_EQ(code_of([&] { (void)real_files(folder.path("none")); }), ExitCode::kAbsent);
}

TEST(RealFilesTest, FollowsNoLinks) {
  const TestFolder folder;
  const std::unique_ptr<FileOps> files = real_files(folder.path("root"), /*make=*/true);
  folder.write("secret", "s");
  std::filesystem::create_directory(folder.path("elsewhere"));
  std::filesystem::create_symlink("../secret", folder.path("root/link"));
  std::filesystem::create_symlink("../elsewhere", folder.path("root/folder"));
  ASSERT_EQ(::mkfifo(folder.path("root/pipe").c_str(), 0600), 0);
  EXPECT_EQ(code_of([&] { (void)files->open({"", "link"}); }), ExitCode::kCorrupt);
  EXPECT_EQ(code_of([&] { (void)files->open({"", "pipe"}); }), ExitCode::kCorrupt);
  EXPECT_NE(code_of([&] { (void)files->list("folder"); }), ExitCode::kOk);
  EXPECT_NE(code_of([&] { (void)files->create({"folder", "x"}); }), ExitCode::kOk);
  EXPECT_EQ(code_of([&] { (void)files->create({"", "link"}); }), ExitCode::kIo);
  EXPECT_EQ(read_file(folder.path("secret")), "s");
  for (const StoreEntry& entry : files->list("")) EXPECT_EQ(entry.kind, EntryKind::kOther);
}

TEST(RealFilesTest, ALinkInACheckpointIsRefused) {
  const TestFolder folder;
  const std::unique_ptr<FileOps> files = real_files(folder.path("ck"), /*make=*/true);
  save_sample(*files, small_plan(), {"run1", 1, "s"}, 1, 1);
  const std::string shard = folder.path("ck/step-00000001/" + data_file(0, 2));
  std::filesystem::rename(shard, folder.path("moved"));
  std::filesystem::create_symlink("../../moved", shard);
  EXPECT_EQ(code_of([&] { newest_good(*files, {}); }), ExitCode::kCorrupt);
}

TEST(RealFilesTest, SavesRecoversAndRetires) {
  const TestFolder folder;
  const std::unique_ptr<FileOps> files = real_files(folder.path("ck"), /*make=*/true);
  for (int64_t step = 1; step <= 4; ++step) {
    save_sample(*files, small_plan(), {"run1", 1, "s" + std::to_string(step)}, step, 1);
  }
  save_sample(*files, small_plan(), {"run1", 1, "again"}, 4, 1);
  begin_save(*files, {"run1", 1, "cut"});
  EXPECT_EQ(apply_retention(*files, {.keep = 2}).size(), 2U);
  EXPECT_EQ(recover_saves(*files, {.run = "run1", .generation = 2}).collected.size(), 1U);
  EXPECT_EQ(newest_good(*files, {})->step(), 4);
  EXPECT_EQ(files->list("").size(), 3U);  // two saves and LATEST
}

// A limit on the size of files stands in for a full disk.
TEST(RealFilesTest, AFullDiskIsSaidAsOne) {
  const TestFolder folder;
  const std::unique_ptr<FileOps> files = real_files(folder.path("ck"), /*make=*/true);
  save_sample(*files, small_plan(), {"run1", 1, "a"}, 1, 1);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit tiny = before;
  tiny.rlim_cur = 256;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tiny), 0);
  ExitCode code = ExitCode::kOk;
  std::string message;
  try {
    save_sample(*files, small_plan(), {"run1", 1, "b"}, 2, 1);
  } catch (const Error& error) {
    code = error.code();
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(code, ExitCode::kIo);
  EXPECT_NE(message.find("make room, or keep fewer checkpoints"), std::string::npos) << message;
  abandon_save(*files, {"run1", 1, "b"});
  EXPECT_EQ(newest_good(*files, {})->step(), 1);
  EXPECT_EQ(files->list("").size(), 2U);
}

}  // namespace
}  // namespace tessera
