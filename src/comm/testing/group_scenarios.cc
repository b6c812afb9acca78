#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "comm/testing/case_lists.h"
#include "comm/testing/case_run.h"
#include "comm/testing/group_sets.h"
#include "comm/testing/scenario_steps.h"

namespace tessera::testing {
namespace {

// This rank's communicators by kind of group; those it is not in are null.
class Groups {
 public:
  explicit Groups(SuiteRank& suite) {
    std::array<int, kNumGroupKinds> order;
    std::iota(order.begin(), order.end(), 0);
    // Joining in any order must do.
    std::rotate(order.begin(), order.begin() + suite.world().rank() % kNumGroupKinds, order.end());
    for (const int kind : order) {
      const std::vector<int> members =
          group_of(static_cast<GroupKind>(kind), suite.world().rank(), suite.world().size());
      if (members.empty()) continue;
      groups_[static_cast<size_t>(kind)] = suite.join("kind " + std::to_string(kind), members);
    }
  }
  [[nodiscard]] Communicator* of(GroupKind kind) const {
    return groups_[static_cast<size_t>(kind)].get();
  }

 private:
  std::array<std::unique_ptr<Communicator>, kNumGroupKinds> groups_;
};

// The case that step `step` of a program runs on `group`: the same on all its members.
SuiteCase case_at(SuiteRank& suite, const Communicator& group, int step, int64_t most) {
  const uint64_t seed = mix(static_cast<uint64_t>(step), hash_name(group.name()));
  return random_cases(suite.traits(), group.size(), 1, most, static_cast<uint32_t>(seed))[0];
}

GroupKind kind_at(int step) {
  return static_cast<GroupKind>(mix(static_cast<uint64_t>(step), 77) % kNumGroupKinds);
}

}  // namespace

void overlapping_groups(SuiteRank& suite) {
  const Groups groups(suite);
  for (int step = 0; step < 250; ++step) {
    Communicator* const group = groups.of(kind_at(step));
    if (group == nullptr) continue;
    const SuiteCase c = case_at(suite, *group, step, 700);
    suite.release_buffers();
    suite.pause();
    CaseRun(suite, *group, c).run();
  }
}

namespace {

struct Flight {
  SuiteCase c;
  Communicator* group = nullptr;
  std::unique_ptr<CaseRun> run;
};

// Each rank starts the calls of a round in an order of its own, except that calls on one group keep
// theirs, and finishes them in another.
class InFlightRound {
 public:
  InFlightRound(SuiteRank& suite, std::deque<Flight> flights)
      : suite_(suite), flights_(std::move(flights)) {}

  void run() {
    start_all();
    std::vector<Flight*> left;
    for (Flight& flight : flights_) left.push_back(&flight);
    while (!left.empty()) {
      const size_t pick = suite_.random() % left.size();
      suite_.pause();
      finish(*left[pick]);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(pick));
    }
  }

 private:
  void start_all() {
    std::map<Communicator*, std::deque<Flight*>> queues;
    for (Flight& flight : flights_) queues[flight.group].push_back(&flight);
    std::vector<std::deque<Flight*>> queued;
    for (Flight& flight : flights_) {  // not in order of address
      auto found = queues.find(flight.group);
      if (found == queues.end()) continue;
      queued.push_back(std::move(found->second));
      queues.erase(found);
    }
    while (!queued.empty()) {
      const size_t pick = suite_.random() % queued.size();
      Flight& flight = *queued[pick].front();
      queued[pick].pop_front();
      if (queued[pick].empty()) queued.erase(queued.begin() + static_cast<std::ptrdiff_t>(pick));
      flight.run = std::make_unique<CaseRun>(suite_, *flight.group, flight.c);
      flight.run->start();
    }
  }

  // By waiting, by asking again and again, or by giving it up (which waits).
  void finish(Flight& flight) {
    const uint64_t way = suite_.random() % 8;
    if (way < 3) {
      while (!flight.run->test()) std::this_thread::yield();
    } else if (way < 7) {
      flight.run->wait();
    }
    if (way < 7) flight.run->check();
    flight.run.reset();
  }

  SuiteRank& suite_;
  std::deque<Flight> flights_;
};

constexpr int kFlights = 16;

}  // namespace

void in_flight(SuiteRank& suite) {
  constexpr int kRounds = 12;
  const Groups groups(suite);
  for (int round = 0; round < kRounds; ++round) {
    suite.release_buffers();
    std::deque<Flight> flights;
    for (int i = 0; i < kFlights; ++i) {
      const int step = round * kFlights + i;
      // Every third round all are on one group.
      Communicator* const group = groups.of(round % 3 == 0 ? GroupKind::kAll : kind_at(step));
      if (group == nullptr) continue;
      flights.push_back({case_at(suite, *group, step, round % 2 == 0 ? 40 : 3000), group, nullptr});
    }
    InFlightRound(suite, std::move(flights)).run();
  }
}

namespace {}  // namespace

void large_in_flight(SuiteRank& suite) {
  const Groups groups(suite);
  suite.release_buffers();
  std::deque<Flight> flights;
  for (int i = 0; i < 6; ++i) {
    Communicator* const group = groups.of(
        i % 3 == 0 ? GroupKind::kAll : (i % 3 == 1 ? GroupKind::kRow : GroupKind::kColumn));
    SuiteCase c = case_at(suite, *group, i, 1);
    c.algorithm = Algorithm::kAuto;
    if (c.op != CollectiveOp::kBarrier) c.count = (1 << 18) / size_bytes(c.dtype) + 3;
    flights.push_back({c, group, nullptr});
  }
  InFlightRound(suite, std::move(flights)).run();
}

namespace {

void expect_members(SuiteRank& suite, const Communicator& group, const std::vector<int>& expected) {
  const std::span<const int> members = group.members();
  const bool same = std::equal(members.begin(), members.end(), expected.begin(), expected.end());
  suite.expect(same, fmt::format("group {} has {} members, not the expected {}", group.name(),
                                 members.size(), expected.size()));
  const auto self = std::find(expected.begin(), expected.end(), suite.world().rank());
  suite.expect(group.rank() == self - expected.begin(),
               fmt::format("group {}: this is rank {}", group.name(), group.rank()));
}

// Colours by remainder, in reverse order of rank.
std::vector<int> reversed_with(int colors, int color, int world_size) {
  std::vector<int> ranks;
  for (int rank = world_size - 1; rank >= 0; --rank) {
    if (rank % colors == color) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

void split(SuiteRank& suite) {
  const int rank = suite.world().rank();
  const int size = suite.world().size();
  for (const int colors : {1, 2, 3}) {
    const auto part = suite.all().split(rank % colors, /*key=*/-rank, "part");
    expect_members(suite, *part, reversed_with(colors, rank % colors, size));
    run_cases(suite, *part, random_cases(suite.traits(), part->size(), 20, 700, 1));
    // A part of the part: its first rank leaves.
    const auto rest = part->split(part->rank() == 0 ? -1 : 7, 0, "rest");
    suite.expect((rest == nullptr) == (part->rank() == 0), "a negative color got a group");
    if (rest == nullptr) continue;
    std::vector<int> members = reversed_with(colors, rank % colors, size);
    members.erase(members.begin());
    expect_members(suite, *rest, members);
    run_cases(suite, *rest, random_cases(suite.traits(), rest->size(), 20, 700, 2));
  }
  // Equal keys keep the order of ranks; the same name and members again is another group.
  const auto first = suite.all().split(0, 0, "again");
  const auto second = suite.all().split(0, 0, "again");
  std::vector<int> everyone(static_cast<size_t>(size));
  std::iota(everyone.begin(), everyone.end(), 0);
  expect_members(suite, *second, everyone);
  run_cases(suite, *second, random_cases(suite.traits(), size, 5, 700, 3));
  run_cases(suite, *first, random_cases(suite.traits(), size, 5, 700, 4));
}

namespace {}  // namespace
}  // namespace tessera::testing
