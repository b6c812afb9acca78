// A rank that dies, leaves or fails: every other rank hears which one, and soon.
#include <sys/mman.h>

#include <csignal>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>

#include "comm/shared/layout.h"
#include "comm_faults/fault_world.h"

namespace tessera {
namespace {

using namespace tessera::testing;
using std::chrono::milliseconds;

constexpr int kRanks = 3;

// Where the victim is when it is killed.
enum class Moment {
  kBeforeItsFirstCall,  // and its peers wait for it
  kBetweenItsCalls,     // and its peers wait for it
  kWaiting,             // for a rank that does not come
  kSmallCalls,          // one after the other
  kLargeCalls,          // data moves nearly all the time
  kLargeForeignCalls,   // through the stages
  kJoining,             // groups, again and again
};

struct DeathCase {
  const char* name;
  Moment moment;
};
constexpr DeathCase kCases[] = {
    {"BeforeItsFirstCall", Moment::kBeforeItsFirstCall},
    {"BetweenItsCalls", Moment::kBetweenItsCalls},
    {"Waiting", Moment::kWaiting},
    {"SmallCalls", Moment::kSmallCalls},
    {"LargeCalls", Moment::kLargeCalls},
    {"LargeForeignCalls", Moment::kLargeForeignCalls},
    {"Joining", Moment::kJoining},
};

void say_and_sleep(const RankVoice& voice) {
  voice.say("ready");
  std::this_thread::sleep_for(std::chrono::seconds(30));
}

void call_in_a_loop(CommWorld& world, const RankVoice& voice, int64_t count, bool foreign) {
  const auto group = world.join_all("dp");
  const int64_t bytes = count * 4;
  HostArena heap = world.allocate("data", foreign ? 64 : bytes);
  std::vector<std::byte> private_data(static_cast<size_t>(foreign ? bytes : 0));
  void* const data = foreign ? private_data.data() : heap.data();
  const CollectiveCall call = {
      .op = CollectiveOp::kAllReduce, .count = count, .in = data, .out = data};
  for (int i = 0; i < 3; ++i) group->run(call);
  voice.say("ready");
  call_for_ever(*group, call);
}

void join_in_a_loop(CommWorld& world, const RankVoice& voice) {
  world.join_all("dp")->barrier();
  voice.say("ready");
  const auto deadline = TestClock::now() + std::chrono::seconds(30);
  for (int i = 0; TestClock::now() < deadline; ++i) {
    world.join_all("group " + std::to_string(i))->barrier();
  }
  throw Error("the world did not end");
}

void act(Moment moment, CommWorld& world, const RankVoice& voice, int victim) {
  constexpr int64_t kLarge = 4 << 20;
  const bool is_victim = world.rank() == victim;
  const bool is_late = world.rank() == (victim + 1) % kRanks;
  if (moment == Moment::kJoining) return join_in_a_loop(world, voice);
  if (moment == Moment::kSmallCalls) return call_in_a_loop(world, voice, 1000, false);
  if (moment == Moment::kLargeCalls) return call_in_a_loop(world, voice, kLarge, false);
  if (moment == Moment::kLargeForeignCalls) return call_in_a_loop(world, voice, kLarge, true);
  const auto group = world.join_all("dp");
  if (moment == Moment::kBetweenItsCalls) group->barrier();
  if (is_victim && moment != Moment::kWaiting) return say_and_sleep(voice);
  if (is_late && moment == Moment::kWaiting) {
    voice.say("ready");
    wait_for_abort(world);
  }
  float data[8] = {};
  voice.say("ready");
  group->all_reduce(data, 8, DType::kF32);
}

class DeathTest : public FaultTest,
                  public ::testing::WithParamInterface<std::tuple<DeathCase, int>> {};

TEST_P(DeathTest, KilledRankIsNamed) {
  const auto& [death, victim] = GetParam();
  FaultWorld world({.ranks = kRanks},
                   [&, moment = death.moment, v = victim](CommWorld& rank, const RankVoice& voice) {
                     act(moment, rank, voice, v);
                   });
  for (int rank = 0; rank < kRanks; ++rank) world.ranks().wait_for_line(rank, "ready");
  // Long enough to be asleep, or anywhere in a call.
  std::mt19937 random(static_cast<uint32_t>(victim));
  std::this_thread::sleep_for(milliseconds(20 + random() % 20));
  const auto killed_at = TestClock::now();
  world.ranks().signal(victim, SIGKILL);
  const std::vector<RankEnd> ends = world.ranks().finish();
  EXPECT_EQ(ends[static_cast<size_t>(victim)].signal, SIGKILL);
  const auto took = expect_survivors_leave(ends, victim, killed_at, {world.name_of(victim)});
  RecordProperty("longest_us", static_cast<int>(took.count()));
  printf("[ measured ] peers left within %.1f ms\n", static_cast<double>(took.count()) / 1e3);
}

INSTANTIATE_TEST_SUITE_P(Moments, DeathTest,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::Range(0, kRanks)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

using LeavingTest = FaultTest;

// What rank 1 does instead of the call that the others wait in.
std::vector<RankEnd> leave_by(const std::function<void(CommWorld&)>& leave, std::string* name,
                              TestClock::time_point* left_at) {
  FaultWorld world({.ranks = kRanks}, [&](CommWorld& rank, const RankVoice& voice) {
    const auto group = rank.join_all("dp");
    group->barrier();
    if (rank.rank() == 1) {
      voice.say("leaving");
      return leave(rank);
    }
    float data[8] = {};
    group->all_reduce(data, 8, DType::kF32);
  });
  *name = world.name_of(1);
  const std::vector<RankEnd> ends = world.ranks().finish();
  *left_at = ends[1].time_of("leaving");
  return ends;
}

TEST_F(LeavingTest, ExitWithoutACleanEndIsNoticed) {
  for (const int code : {0, 3}) {
    std::string name;
    TestClock::time_point left_at;
    const auto ends = leave_by([&](CommWorld&) { _exit(code); }, &name, &left_at);
    EXPECT_EQ(ends[1].exit_code, code);
    expect_survivors_leave(ends, 1, left_at, {name, "all_reduce(f32, 8) #2"});
  }
}

TEST_F(LeavingTest, LeavingEarlyIsNoticed) {
  std::string name;
  TestClock::time_point left_at;
  const auto ends = leave_by([](CommWorld&) {}, &name, &left_at);
  EXPECT_EQ(ends[1].exit_code, 0);
  expect_survivors_leave(ends, 1, left_at, {name, "left", "all_reduce(f32, 8) #2"});
}

TEST_F(LeavingTest, AnExceptionIsNoticed) {
  std::string name;
  TestClock::time_point left_at;
  const auto ends =
      leave_by([](CommWorld&) { throw std::runtime_error("no such file"); }, &name, &left_at);
  EXPECT_EQ(ends[1].exit_code, 1);
  expect_survivors_leave(ends, 1, left_at, {name});
}

TEST_F(LeavingTest, AReasonThatWasGivenIsTold) {
  std::string name;
  TestClock::time_point left_at;
  const auto ends =
      leave_by([](CommWorld& world) { world.abort("rank 1: no such file"); }, &name, &left_at);
  expect_survivors_leave(ends, 1, left_at, {"rank 1: no such file"});
}

// A rank that has nothing more to do is free to go: no false alarm.
TEST_F(LeavingTest, RanksThatAreDoneMayGo) {
  FaultWorld world({.ranks = kRanks}, [&](CommWorld& rank, const RankVoice& voice) {
    rank.join_all("dp")->barrier();
    if (rank.rank() == 1) return;
    const std::vector<int> others = {0, 2};
    const auto group = rank.join("others", others);
    voice.say("ready");
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(milliseconds(5));
      group->barrier();
    }
  });
  for (const RankEnd& end : world.ranks().finish()) {
    EXPECT_EQ(end.exit_code, 0) << end.error();
  }
}

// Whoever started the ranks knows of a process that ended before it attached; nobody else can.
TEST_F(LeavingTest, DeathBeforeAttachingIsReportedByTheParent) {
  ShmMemory memory = ShmMemory::create({.ranks = 2});
  ForkedRanks ranks(2, [&](int rank, const RankVoice& voice) {
    if (rank == 1) {
      voice.say("ready");
      std::this_thread::sleep_for(std::chrono::seconds(30));
    }
    const auto world = attach_shm_world({.fd = memory.fd(), .rank = rank});
    const auto group = world->join_all("dp");
    voice.say("ready");
    group->barrier();
  });
  for (const int rank : {0, 1}) ranks.wait_for_line(rank, "ready");
  ranks.signal(1, SIGKILL);
  ranks.wait_for_end(1);
  const auto reported_at = TestClock::now();
  memory.report_death(1, "was killed by SIGKILL");
  expect_survivors_leave(ranks.finish(), 1, reported_at, {"rank 1", "was killed by SIGKILL"});
}

// The parent's words arrive even though the peers could have found out by themselves.
TEST_F(LeavingTest, StatusTellsWhatARankDidLast) {
  FaultWorld world({.ranks = 2}, [&](CommWorld& rank, const RankVoice& voice) {
    const auto group = rank.join_all("dp");
    float data[8] = {};
    for (int i = 0; i < 16; ++i) group->barrier();
    group->all_reduce(data, 8, DType::kF32);
    voice.say("ready");
    if (rank.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(30));
  });
  world.ranks().wait_for_line(0, "ready");
  world.ranks().wait_for_end(1);
  EXPECT_EQ(world.memory().status(0).state, ShmRankState::kAttached);
  EXPECT_EQ(world.memory().status(0).pid, world.ranks().pid(0));
  EXPECT_EQ(world.memory().status(0).last_call, "all_reduce(f32, 8) #17 of group dp");
  EXPECT_EQ(world.memory().status(1).state, ShmRankState::kLeft);
  world.ranks().signal(0, SIGKILL);
  world.ranks().finish();
}

// The lock under which groups are made and given back, held by a rank that dies or stops there.
class LockHolderTest : public FaultTest {
 protected:
  // Rank 1 holds the lock; `harm` is what happens to it. Rank 0 joins a group then.
  RankEnd join_while_held(int harm, std::string* name) {
    FaultWorld world({.ranks = 2, .timeout = milliseconds(500)},
                     [](CommWorld& rank, const RankVoice& voice) {
                       voice.say("ready");
                       if (rank.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(30));
                       const auto deadline = TestClock::now() + std::chrono::seconds(20);
                       while (!rank.stop_requested()) {
                         require(TestClock::now() < deadline, "the test did not go on");
                         std::this_thread::yield();
                       }
                       voice.say("joining");
                       (void)rank.join_all("dp");
                     });
    for (const int rank : {0, 1}) world.ranks().wait_for_line(rank, "ready");
    void* const mapped = mmap(nullptr, sizeof(shared::WorldBlock), PROT_READ | PROT_WRITE,
                              MAP_SHARED, world.memory().fd(), 0);
    EXPECT_NE(mapped, MAP_FAILED);
    static_cast<shared::WorldBlock*>(mapped)->group_lock.store(2);
    munmap(mapped, sizeof(shared::WorldBlock));
    world.ranks().signal(1, harm);
    world.memory().request_stop(SIGINT);
    world.ranks().wait_for_end(0);
    world.ranks().signal(1, SIGKILL);
    *name = world.name_of(1);
    return world.ranks().finish()[0];
  }
};

TEST_F(LockHolderTest, ADeadOneIsNamedSoon) {
  std::string name;
  const RankEnd end = join_while_held(SIGKILL, &name);
  EXPECT_TRUE(contains(end.error(), name + ") died")) << end.error();
  EXPECT_LT(end.time_of("error: ") - end.time_of("joining"), kSoon);
}

TEST_F(LockHolderTest, AStoppedOneIsNamedAtTheTimeout) {
  std::string name;
  const RankEnd end = join_while_held(SIGSTOP, &name);
  EXPECT_TRUE(contains(end.error(), name + ", stopped) has been joining")) << end.error();
  EXPECT_TRUE(contains(end.error(), "0.500 s")) << end.error();
}

TEST_F(LeavingTest, StopIsSeenByEveryRank) {
  FaultWorld world({.ranks = 2}, [&](CommWorld& rank, const RankVoice& voice) {
    require(!rank.stop_requested(), "stopped before anybody asked");
    voice.say("ready");
    const auto deadline = TestClock::now() + std::chrono::seconds(20);
    while (!rank.stop_requested()) {
      require(TestClock::now() < deadline, "the stop was not seen");
      std::this_thread::yield();
    }
    rank.join_all("dp")->barrier();  // the world still works
  });
  for (const int rank : {0, 1}) world.ranks().wait_for_line(rank, "ready");
  world.memory().request_stop(SIGINT);
  for (const RankEnd& end : world.ranks().finish()) EXPECT_EQ(end.error(), "");
}

}  // namespace
}  // namespace tessera
