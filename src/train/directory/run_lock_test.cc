#include "train/directory/run_lock.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/testing/message_of.h"
#include "base/testing/test_folder.h"

namespace tessera {
namespace {

using testing::message_of;
using testing::read_file;
using testing::TestFolder;

// As on a file system that has no locks.
int no_flock(int /*descriptor*/, int /*operation*/) {
  errno = ENOLCK;
  return -1;
}

const RunLock::Flock kSystem = nullptr;
const RunLock::Flock kNone = no_flock;

RunLock take(const TestFolder& folder, const RunLock::Flock& flock) {
  return flock ? RunLock::take(folder.path(), flock) : RunLock::take(folder.path());
}

// A process that takes the lock, and is killed with it.
void die_with_lock(const TestFolder& folder, const RunLock::Flock& flock) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock lock = take(folder, flock);
    (void)!::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THROW((void)take(folder, flock), RunDirectoryInUse);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(RunLockTest, TheSecondOneIsToldWhoTheFirstIs) {
  for (const RunLock::Flock& flock : {kSystem, kNone}) {
    const TestFolder folder;
    const RunLock lock = take(folder, flock);
    const std::string message = message_of<RunDirectoryInUse>([&] { (void)take(folder, flock); });
    EXPECT_NE(message.find(fmt::format("in use by pid {} on host ", ::getpid())), std::string::npos)
        << message;
    EXPECT_NE(message.find("logging.run_dir"), std::string::npos) << message;
    EXPECT_EQ(user_of_run_directory(folder.path()).has_value(), flock == nullptr);
  }
}

TEST(RunLockTest, LeavesNothing) {
  for (const RunLock::Flock& flock : {kSystem, kNone}) {
    const TestFolder folder;
    { const RunLock lock = take(folder, flock); }
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    EXPECT_FALSE(user_of_run_directory(folder.path()).has_value());
    (void)take(folder, flock);
  }
}

TEST(RunLockTest, OfAKilledProcessIsFree) {
  for (const RunLock::Flock& flock : {kSystem, kNone}) {
    const TestFolder folder;
    die_with_lock(folder, flock);
    EXPECT_TRUE(std::filesystem::exists(folder.path("run.lock")));
    EXPECT_FALSE(user_of_run_directory(folder.path()).has_value());
    const RunLock lock = take(folder, flock);
    EXPECT_THROW((void)take(folder, flock), RunDirectoryInUse);
  }
}

// Its processes cannot be seen from here; a lock of the kernel would tell, a file does not.
TEST(RunLockTest, WithoutFlockAnotherHostMustBeAskedFor) {
  const TestFolder folder;
  folder.write("run.lock",
               R"({"pid":1,"host":"elsewhere","boot":"x","started":1,"pid_namespace":""})");
  const std::string message = message_of<RunDirectoryInUse>([&] { (void)take(folder, kNone); });
  EXPECT_NE(message.find("pid 1 on host \"elsewhere\""), std::string::npos) << message;
  EXPECT_NE(message.find("if that run is gone, remove '" + folder.path("run.lock") + "'"),
            std::string::npos)
      << message;
  (void)take(folder, kSystem);
}

TEST(RunLockTest, FollowsNoLinkAndWaitsForNoPipe) {
  const TestFolder folder;
  const std::string victim = folder.write("victim", "precious");
  std::filesystem::create_symlink(victim, folder.path("run.lock"));
  EXPECT_THROW((void)take(folder, kSystem), ConfigError);
  EXPECT_EQ(read_file(victim), "precious");
  std::filesystem::remove(folder.path("run.lock"));
  ASSERT_EQ(::mkfifo(folder.path("run.lock").c_str(), 0600), 0);
  EXPECT_THROW((void)take(folder, kSystem), ConfigError);
}

TEST(RunLockTest, IgnoresWhatIsNoLockFile) {
  const TestFolder folder;
  for (const std::string text : {"", "garbage", "[1]", "{\"pid\":\"x\",\"host\":1}"}) {
    folder.write("run.lock", text);
    EXPECT_FALSE(user_of_run_directory(folder.path()).has_value()) << text;
    (void)take(folder, kSystem);
  }
}

}  // namespace
}  // namespace tessera
