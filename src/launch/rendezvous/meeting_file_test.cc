// Where ranks of one host meet: a file, in a folder that nobody else writes to.
#include "launch/rendezvous/meeting_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "comm/communicator.h"
#include "launch/rendezvous/private_folder.h"
#include "launch/rendezvous/rendezvous_frame.h"
#include "launch/rendezvous/rendezvous_guest.h"
#include "launch/rendezvous/socket.h"
#include "launch/rendezvous/token.h"
#include "launch/testing/meeting.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TEST(PrivateFolderTest, AFolderOfOthersIsRefused) {
  const TestFolder folder;
  const std::string own = private_folder(folder.path());
  EXPECT_EQ(private_folder(folder.path()), own);
  ASSERT_EQ(::chmod(own.c_str(), 0755), 0);
  EXPECT_THROW(private_folder(folder.path()), ConfigError);
  ASSERT_EQ(::rmdir(own.c_str()), 0);
  ASSERT_EQ(::symlink(folder.path().c_str(), own.c_str()), 0);
  EXPECT_THROW(private_folder(folder.path()), ConfigError);
  EXPECT_THROW(private_folder(folder.path("absent")), ConfigError);
}

TEST(TokenTest, TokensAreComparedWhole) {
  EXPECT_TRUE(same_token("", ""));
  EXPECT_TRUE(same_token("secret", "secret"));
  for (const char* other : {"", "secres", "tecret", "secret1", "secre"}) {
    EXPECT_FALSE(same_token("secret", other)) << other;
  }
}

class FileTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return folder_.path("meet"); }

  // The note of a run whose rank 0 is `pid`.
  static MeetingNote note_of(pid_t pid, uint64_t started, int port) {
    return {.addresses = {"127.0.0.1"},
            .port = port,
            .token = "old",
            .host = this_host(),
            .pid = pid,
            .started = started};
  }
  static pid_t dead_process() {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(0);
    ::waitpid(pid, nullptr, 0);
    return pid;
  }
  // Nothing of the rendezvous is left in the folder.
  void expect_empty() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path(""))) {
      ADD_FAILURE() << entry.path();
    }
  }
  void expect_meeting(RendezvousOptions options = {.timeout = kLong}) const {
    Meeting meeting(through(path()));
    std::vector<Outcome*> outcomes;
    for (int rank = 3; rank >= 0; --rank) outcomes.push_back(&meeting.start(rank, 4, options));
    meeting.join();
    for (const Outcome* outcome : outcomes) {
      EXPECT_EQ(outcome->payloads, all_payloads(4)) << outcome->error;
    }
    expect_empty();
  }
  // What rank 0 says when it may not use the path.
  [[nodiscard]] std::string refusal() const {
    Meeting meeting(through(path()));
    const Outcome& host = meeting.start(0, 2, {.timeout = kShort});
    meeting.join();
    EXPECT_TRUE(host.config_error) << host.error;
    return host.error;
  }

  TestFolder folder_;
};

TEST_F(FileTest, LeadsRanksTogether) {
  expect_meeting();
  expect_meeting({.token = "mine", .timeout = kLong});
}

TEST_F(FileTest, OnlyItsOwnerReadsIt) {
  const MeetingFile file(path(), note_of(::getpid(), 1, 1));
  EXPECT_EQ(std::filesystem::status(path()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(FileTest, ReadsWhatItWrote) {
  const MeetingNote note = note_of(4711, 123456789012345ULL, 29500);
  const std::string text = to_text(note);
  const MeetingNote read = parse_meeting_note(text).value();
  EXPECT_EQ(read.addresses, note.addresses);
  EXPECT_EQ(read.port, note.port);
  EXPECT_EQ(read.token, note.token);
  EXPECT_EQ(read.host, note.host);
  EXPECT_EQ(read.pid, note.pid);
  EXPECT_EQ(read.started, note.started);
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(parse_meeting_note(text.substr(0, length)).has_value()) << length;
  }
}

TEST_F(FileTest, ReplacesTheFileOfADeadRun) {
  folder_.write("meet", to_text(note_of(dead_process(), 1, free_port())));
  expect_meeting();
  // The pid has gone to another process: this one.
  const uint64_t started = start_time_of(::getpid()).value();
  folder_.write("meet", to_text(note_of(::getpid(), started + 1, free_port())));
  expect_meeting();
}

TEST_F(FileTest, ReplacesWhatACrashLeftHalfWritten) {
  folder_.write("meet", to_text(note_of(1, 1, 1)).substr(0, 50));
  expect_meeting();
}

// Before a reboot, or on another host: nobody answers at that address.
TEST_F(FileTest, ReplacesTheFileOfAnotherBoot) {
  MeetingNote note = note_of(::getpid(), start_time_of(::getpid()).value(), free_port());
  note.host.boot = "another";
  folder_.write("meet", to_text(note));
  Meeting meeting(through(path()));
  const Outcome& host = meeting.start(0, 2);
  // A guest cannot tell that the file is old, and goes on looking.
  const Outcome& guest = meeting.start(1, 2);
  meeting.join();
  EXPECT_EQ(host.payloads, all_payloads(2)) << host.error;
  EXPECT_EQ(guest.payloads, all_payloads(2)) << guest.error;
}

TEST_F(FileTest, RefusesTheFileOfALiveRun) {
  Meeting meeting(through(path()));
  const Outcome& host = meeting.start(0, 2);
  while (read_meeting_file(path()).empty()) std::this_thread::sleep_for(milliseconds(2));
  EXPECT_TRUE(
      contains(refusal(), fmt::format("belongs to a run that is waiting for its ranks (rank "
                                      "0 is pid {} on this host): choose another path",
                                      ::getpid())));
  meeting.start(1, 2);
  meeting.join();
  EXPECT_EQ(host.payloads, all_payloads(2)) << host.error;
}

TEST_F(FileTest, RefusesTheFileOfALiveRunElsewhere) {
  const Listener elsewhere = listen_on("127.0.0.1", 0);
  MeetingNote note = note_of(4711, 1, elsewhere.port);
  note.host.boot = "another";
  note.host.name = "far-away";
  folder_.write("meet", to_text(note));
  EXPECT_TRUE(contains(refusal(), "rank 0 is pid 4711 on host far-away"));
}

TEST_F(FileTest, LeavesOtherFilesAlone) {
  folder_.write("meet", "my thesis\n");
  EXPECT_TRUE(contains(refusal(), "exists and is no rendezvous file"));
  EXPECT_EQ(testing::read_file(path()), "my thesis\n");
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  EXPECT_TRUE(contains(refusal(), "exists and is no rendezvous file"));
  EXPECT_TRUE(std::filesystem::is_directory(path()));
}

TEST_F(FileTest, RefusesAPathThatCannotBe) {
  Meeting meeting(through(folder_.path("no/such/folder")));
  const Outcome& host = meeting.start(0, 2, {.timeout = kShort});
  const Outcome& guest = meeting.start(1, 2, {.timeout = kShort});
  meeting.join();
  EXPECT_TRUE(host.config_error);
  EXPECT_TRUE(contains(host.error, "cannot create the rendezvous file")) << host.error;
  EXPECT_TRUE(contains(guest.error, "rank 1 did not find rank 0 through the file")) << guest.error;
  EXPECT_TRUE(contains(guest.error, "there is no such file")) << guest.error;
}

TEST_F(FileTest, RefusesAWrongToken) {
  Meeting meeting(through(path()));
  const Outcome& host = meeting.start(0, 2);  // with a random token
  const Outcome& wrong = meeting.start(1, 2, {.token = "wrong", .timeout = kLong});
  meeting.notes.await("its token is not the one of rank 0");
  meeting.start(1, 2);
  meeting.join();
  EXPECT_TRUE(wrong.config_error);
  EXPECT_TRUE(contains(wrong.error, "its token is not the one of rank 0")) << wrong.error;
  EXPECT_EQ(host.payloads, all_payloads(2)) << host.error;
}

TEST_F(FileTest, ATimeoutLeavesNothingBehind) {
  Meeting meeting(through(path()));
  const Outcome& host = meeting.start(0, 3, {.timeout = kShort});
  meeting.join();
  EXPECT_TRUE(contains(host.error, "ranks 1-2 of 3 did not come")) << host.error;
  expect_empty();
}

}  // namespace
}  // namespace tessera
