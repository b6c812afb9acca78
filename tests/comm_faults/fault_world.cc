#include "comm_faults/fault_world.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <thread>

namespace tessera::testing {
namespace {

// Where the shared memory is open or mapped in this process.
std::vector<std::string> shared_memory_held() {
  std::vector<std::string> held;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (contains(line, "memfd:")) held.push_back(line);
  }
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    char target[256] = {};
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    if (readlink(path.c_str(), target, sizeof(target) - 1) < 0) continue;
    if (contains(target, "memfd:")) held.push_back(path + " -> " + target);
  }
  closedir(folder);
  return held;
}

}  // namespace

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

FaultWorld::FaultWorld(const FaultOptions& options, const Body& body)
    : memory_(ShmMemory::create({.ranks = options.ranks})),
      ranks_(options.ranks, [&](int rank, const RankVoice& voice) {
        const std::unique_ptr<CommWorld> world = attach_shm_world(
            {.fd = memory_.fd(),
             .rank = rank,
             .timeout = options.timeout,
             .slow_after = options.slow_after,
             .on_warning = [&](const std::string& text) { voice.say("warning: " + text); }});
        body(*world, voice);
      }) {}

std::string FaultWorld::name_of(int rank) const {
  return fmt::format("rank {} (pid {}", rank, ranks_.pid(rank));
}

void FaultTest::TearDown() {
  EXPECT_TRUE(waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD) << "a process is left";
  for (const std::string& held : shared_memory_held()) ADD_FAILURE() << "left: " << held;
}

std::chrono::microseconds expect_survivors_leave(const std::vector<RankEnd>& ends, int victim,
                                                 TestClock::time_point since,
                                                 const std::vector<std::string>& parts) {
  std::chrono::microseconds longest{0};
  for (int rank = 0; rank < static_cast<int>(ends.size()); ++rank) {
    if (rank == victim) continue;
    const RankEnd& end = ends[static_cast<size_t>(rank)];
    EXPECT_FALSE(end.hung) << "rank " << rank;
    EXPECT_EQ(end.exit_code, 1) << "rank " << rank << " ended by signal " << end.signal;
    for (const std::string& part : parts) {
      EXPECT_TRUE(contains(end.error(), part))
          << "rank " << rank << ": " << end.error() << "\nlacks: " << part;
    }
    if (end.error().empty()) continue;
    const auto took = end.time_of("error: ") - since;
    longest = std::max(longest, std::chrono::duration_cast<std::chrono::microseconds>(took));
  }
  EXPECT_LT(longest, kSoon);
  return longest;
}

void wait_for_abort(const CommWorld& world) {
  const auto deadline = TestClock::now() + std::chrono::seconds(30);
  while (!world.aborted()) {
    require(TestClock::now() < deadline, "the world did not end");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void call_for_ever(Communicator& group, const CollectiveCall& call) {
  const auto deadline = TestClock::now() + std::chrono::seconds(30);
  while (TestClock::now() < deadline) group.run(call);
  throw Error("the world did not end");
}

}  // namespace tessera::testing
