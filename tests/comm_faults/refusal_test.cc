// A system that refuses memory, descriptors or system calls: an error that says so, and no rank
// that hangs, crashes, or takes a living peer for dead.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "comm_faults/fault_world.h"
#include "comm_faults/refused_calls.h"

namespace tessera {
namespace {

using namespace tessera::testing;
using std::chrono::milliseconds;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kTiB = int64_t{1} << 40;

// Sanitizers need the address space themselves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

class RefusalTest : public FaultTest {
 protected:
  // How `body` ends in a process of its own, which it may restrict.
  static RankEnd in_a_process(const std::function<void(const RankVoice&)>& body) {
    ForkedRanks process(1, [&](int, const RankVoice& voice) { body(voice); });
    return process.finish()[0];
  }

  static void limit(int resource, int64_t value) {
    const rlimit limits = {static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
    require(setrlimit(static_cast<__rlimit_resource>(resource), &limits) == 0,
            "the limit cannot be lowered");
  }

  static void expect_error(const RankEnd& end, const std::vector<std::string>& parts) {
    EXPECT_FALSE(end.hung);
    EXPECT_EQ(end.signal, 0);
    EXPECT_EQ(end.exit_code, 1);
    for (const std::string& part : parts) {
      EXPECT_TRUE(contains(end.error(), part)) << end.error() << "\nlacks: " << part;
    }
  }

  static int64_t shared_memory_of_the_machine() {
    std::ifstream file("/proc/meminfo");
    std::string word;
    int64_t kib = 0;
    while (file >> word) {
      if (word == "Shmem:" && file >> kib) return kib * 1024;
    }
    return 0;
  }
};

TEST_F(RefusalTest, NoFileOfThatSize) {
  const RankEnd end = in_a_process([](const RankVoice&) {
    limit(RLIMIT_FSIZE, kMiB);
    (void)ShmMemory::create({.ranks = 2});
  });
  expect_error(end, {"shared memory", "File too large", "ulimit -f"});
}

TEST_F(RefusalTest, NoAddressSpaceForTheParent) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need the address space";
  const RankEnd end = in_a_process([](const RankVoice&) {
    limit(RLIMIT_AS, 512 * kMiB);
    (void)ShmMemory::create({.ranks = 2, .bytes_per_rank = 1024 * kMiB});
  });
  expect_error(end, {"address space", "Cannot allocate memory", "ulimit -v"});
}

// The ranks that could attach hear why the other one did not.
TEST_F(RefusalTest, NoAddressSpaceForARank) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need the address space";
  ShmMemory memory = ShmMemory::create({.ranks = 2, .bytes_per_rank = 1024 * kMiB});
  ForkedRanks ranks(2, [&](int rank, const RankVoice& voice) {
    // The mapping that was inherited counts as well.
    if (rank == 1) limit(RLIMIT_AS, 3 * 1024 * kMiB);
    const auto world = attach_shm_world({.fd = memory.fd(), .rank = rank});
    voice.say("attached");
    world->join_all("dp")->barrier();
  });
  ranks.wait_for_line(0, "attached");
  ranks.wait_for_end(1);
  const auto reported_at = TestClock::now();
  memory.report_death(1, "exited with code 1");
  const std::vector<RankEnd> ends = ranks.finish();
  expect_error(ends[1], {"address space", "Cannot allocate memory", "ulimit -v"});
  expect_survivors_leave(ends, 1, reported_at, {"rank 1", "exited with code 1"});
}

TEST_F(RefusalTest, MoreThanTheMachineHas) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need the address space";
  const RankEnd end = in_a_process([](const RankVoice&) {
    const ShmMemory memory = ShmMemory::create({.ranks = 1, .bytes_per_rank = 8 * kTiB});
    const auto world = attach_shm_world({.fd = memory.fd(), .rank = 0});
    (void)world->allocate("parameters", 4 * kTiB);
  });
  expect_error(end, {"parameters", std::to_string(4 * kTiB), "the machine has"});
}

TEST_F(RefusalTest, MoreThanTheRankMayShare) {
  const RankEnd end = in_a_process([](const RankVoice&) {
    const ShmMemory memory = ShmMemory::create({.ranks = 1, .bytes_per_rank = 16 * kMiB});
    const auto world = attach_shm_world({.fd = memory.fd(), .rank = 0});
    // What was given back can be used again.
    for (int i = 0; i < 20; ++i) (void)world->allocate("activations", 8 * kMiB);
    const HostArena kept = world->allocate("kept", 8 * kMiB);
    (void)world->allocate("parameters", 12 * kMiB);
  });
  expect_error(end, {"parameters", std::to_string(12 * kMiB)});
}

TEST_F(RefusalTest, NoPermissionForSharedMemory) {
  const RankEnd end = in_a_process([](const RankVoice& voice) {
    if (!refuse_system_call(SYS_memfd_create, EPERM)) return voice.say("cannot refuse");
    (void)ShmMemory::create({.ranks = 2});
  });
  if (end.error().empty()) GTEST_SKIP() << "no seccomp here";
  expect_error(end, {"shared memory", "Operation not permitted"});
}

TEST_F(RefusalTest, NoDescriptorForSharedMemory) {
  const RankEnd end = in_a_process([](const RankVoice&) {
    refuse_new_descriptors();
    (void)ShmMemory::create({.ranks = 2});
  });
  expect_error(end, {"shared memory", "Too many open files"});
}

TEST_F(RefusalTest, NoDescriptorToAttach) {
  const ShmMemory memory = ShmMemory::create({.ranks = 1});
  const RankEnd end = in_a_process([&](const RankVoice&) {
    refuse_new_descriptors();
    (void)attach_shm_world({.fd = memory.fd(), .rank = 0});
  });
  expect_error(end, {"shared memory"});
}

TEST_F(RefusalTest, WhatIsNoSharedMemoryIsRefused) {
  const RankEnd end = in_a_process([](const RankVoice& voice) {
    const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    for (const int bad : {-1, 999, fd}) {
      try {
        (void)attach_shm_world({.fd = bad, .rank = 0});
        voice.say("no error");
      } catch (const Error& error) {
        require(contains(error.what(), fmt::format("descriptor {}", bad)), "{}", error.what());
      }
    }
  });
  EXPECT_EQ(end.error(), "");
  EXPECT_TRUE(end.lines.empty());
}

TEST_F(RefusalTest, EveryRankAttachesOnce) {
  const ShmMemory memory = ShmMemory::create({.ranks = 2});
  ForkedRanks ranks(3, [&](int process, const RankVoice& voice) {
    const int rank = process == 2 ? 5 : 0;
    const auto world = attach_shm_world({.fd = memory.fd(), .rank = rank});
    voice.say("attached");
    std::this_thread::sleep_for(milliseconds(300));
  });
  const std::vector<RankEnd> ends = ranks.finish();
  const bool first_won = ends[0].error().empty();
  EXPECT_TRUE(ends[first_won ? 0 : 1].error().empty());
  const std::string& refused = ends[first_won ? 1 : 0].error();
  EXPECT_TRUE(
      contains(refused, fmt::format("rank 0 is taken by process {}", ranks.pid(first_won ? 0 : 1))))
      << refused;
  EXPECT_TRUE(contains(ends[2].error(), "ranks are 0 to 1")) << ends[2].error();
}

// How ranks learn of deaths where pidfds are refused.
struct Blindness {
  const char* name;
  std::function<bool()> make;
};

const Blindness kBlindnesses[] = {
    {"NoPidfds", [] { return refuse_system_call(SYS_pidfd_open, EPERM); }},
    {"NoPidfdsInTheKernel", [] { return refuse_system_call(SYS_pidfd_open, ENOSYS); }},
    {"TooManyOpenFiles",
     [] {
       refuse_new_descriptors();
       return true;
     }},
};

class BlindTest : public FaultTest, public ::testing::WithParamInterface<int> {
 protected:
  static const Blindness& blindness() { return kBlindnesses[GetParam()]; }
};

TEST_P(BlindTest, DeathIsStillNoticed) {
  FaultWorld world({.ranks = 3}, [&](CommWorld& rank, const RankVoice& voice) {
    require(blindness().make(), "cannot refuse");
    const auto group = rank.join_all("dp");
    group->barrier();
    voice.say("ready");
    if (rank.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(30));
    group->barrier();
  });
  for (const int rank : {0, 1, 2}) world.ranks().wait_for_line(rank, "ready");
  std::this_thread::sleep_for(milliseconds(30));
  const auto killed_at = TestClock::now();
  world.ranks().signal(1, SIGKILL);
  // Reaps it at once, as an agent does.
  const auto took =
      expect_survivors_leave(world.ranks().finish(), 1, killed_at, {world.name_of(1)});
  printf("[ measured ] peers left within %.1f ms\n", static_cast<double>(took.count()) / 1e3);
}

TEST_P(BlindTest, TheLivingAreNotTakenForDead) {
  FaultWorld world({.ranks = 3}, [&](CommWorld& rank, const RankVoice&) {
    require(blindness().make(), "cannot refuse");
    const auto group = rank.join_all("dp");
    for (int i = 0; i < 3; ++i) {
      if (rank.rank() == 1) std::this_thread::sleep_for(milliseconds(250));
      group->barrier();
    }
  });
  for (const RankEnd& end : world.ranks().finish()) EXPECT_EQ(end.error(), "");
}

INSTANTIATE_TEST_SUITE_P(Refused, BlindTest, ::testing::Range(0, 3),
                         [](const auto& test) { return kBlindnesses[test.param].name; });

// Nothing has a name that a crash could leave behind.
TEST_F(RefusalTest, SharedMemoryHasNoName) {
  FaultWorld world({.ranks = 2}, [&](CommWorld& rank, const RankVoice& voice) {
    const auto group = rank.join_all("dp");
    const HostArena data = rank.allocate("data", kMiB);
    std::vector<float> foreign(100'000);
    group->all_reduce(foreign.data(), 100'000, DType::kF32);
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      const bool shared = contains(line, " rw-s ");
      if (shared && !contains(line, "/memfd:")) voice.say(line);
    }
  });
  for (const RankEnd& end : world.ranks().finish()) {
    EXPECT_EQ(end.error(), "");
    for (const RankLine& line : end.lines) ADD_FAILURE() << line.text;
  }
}

// All ranks killed at once, holding memory: the machine has it back. Other programs use shared
// memory too, hence the margin and the patience.
TEST_F(RefusalTest, MemoryComesBackAfterAMassacre) {
  constexpr int64_t kHeld = 192 * kMiB;
  const int64_t before = shared_memory_of_the_machine();
  {
    FaultWorld world({.ranks = 3}, [&](CommWorld& rank, const RankVoice& voice) {
      const HostArena data = rank.allocate("data", kHeld / 3);
      rank.join_all("dp")->barrier();
      voice.say("ready");
      std::this_thread::sleep_for(std::chrono::seconds(30));
    });
    for (const int rank : {0, 1, 2}) world.ranks().wait_for_line(rank, "ready");
    EXPECT_GT(shared_memory_of_the_machine(), kHeld / 2);
    world.ranks().kill_all();
    for (const RankEnd& end : world.ranks().finish()) EXPECT_EQ(end.signal, SIGKILL);
  }
  const auto deadline = TestClock::now() + std::chrono::seconds(10);
  int64_t after = shared_memory_of_the_machine();
  while (after > before + kHeld / 2 && TestClock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(50));
    after = shared_memory_of_the_machine();
  }
  EXPECT_LE(after, before + kHeld / 2);
}

}  // namespace
}  // namespace tessera
