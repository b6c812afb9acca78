#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/testing/case_lists.h"
#include "comm/testing/scenario_steps.h"

namespace tessera::testing {
namespace {

size_t index(CollectiveOp op) { return static_cast<size_t>(op); }

void count_case(const SuiteTraits& traits, const SuiteCase& c, int rank, int size,
                TrafficCounters& expected) {
  ++expected[index(c.op)].calls;
  if (c.op == CollectiveOp::kSend) ++expected[index(CollectiveOp::kReceive)].calls;
  expected[index(c.op)].bytes_sent += traits.bytes_sent(c, rank, size);
}

}  // namespace

void counters(SuiteRank& suite) {
  if (!suite.traits().bytes_sent) return;
  Communicator& group = suite.all();
  TrafficCounters expected = {};
  for (int step = 0; step < 40; ++step) {
    const auto cases = random_cases(suite.traits(), group.size(), 4, step % 2 == 0 ? 90 : 5000,
                                    static_cast<uint32_t>(1000 + step));
    run_cases(suite, group, cases);
    for (const SuiteCase& c : cases) {
      count_case(suite.traits(), c, group.rank(), group.size(), expected);
    }
    // The first barrier: all ranks have done the cases. The second: none goes on yet.
    group.barrier();
    ++expected[index(CollectiveOp::kBarrier)].calls;
    const TrafficCounters seen = group.counters();
    group.barrier();
    ++expected[index(CollectiveOp::kBarrier)].calls;
    for (int op = 0; op < kNumCollectiveOps; ++op) {
      const auto [calls, bytes] = seen[static_cast<size_t>(op)];
      const bool is_barrier = op == static_cast<int>(CollectiveOp::kBarrier);
      const TrafficCounter& want = expected[static_cast<size_t>(op)];
      suite.expect(calls == want.calls - (is_barrier ? 1 : 0) && bytes == want.bytes_sent,
                   fmt::format("after step {} rank {} of {} counted {} calls and {} bytes of {}, "
                               "not {} and {}; the last cases: {}; {}; {}; {}",
                               step, group.rank(), group.size(), calls, bytes,
                               name_of(static_cast<CollectiveOp>(op)), want.calls, want.bytes_sent,
                               describe(cases[0]), describe(cases[1]), describe(cases[2]),
                               describe(cases[3])));
    }
  }
}

// The rank that comes late every time is the one that is named.
void arrivals(SuiteRank& suite) {
  Communicator& group = suite.all();
  if (!suite.traits().records_arrivals || group.size() == 1) return;
  constexpr int kCalls = 12;
  constexpr std::chrono::milliseconds kLate{5};
  const int late = group.size() / 2;
  for (int call = 0; call < kCalls; ++call) {
    if (group.rank() == late) std::this_thread::sleep_for(kLate);
    group.barrier();
  }
  const std::vector<Arrival> seen = group.arrivals();
  suite.expect(static_cast<int>(seen.size()) == group.size(),
               fmt::format("{} arrivals of {} ranks", seen.size(), group.size()));
  const auto most = std::max_element(seen.begin(), seen.end(), [](const auto& a, const auto& b) {
    return a.times_last < b.times_last;
  });
  if (most == seen.end()) return;
  suite.expect(most->world_rank == group.members()[static_cast<size_t>(late)],
               fmt::format("rank {} was last most often, not rank {}", most->world_rank, late));
  suite.expect(most->p50_us >= 1000 && most->p99_us >= most->p50_us,
               fmt::format("late by {} us (p50) and {} us (p99), though it slept {} ms",
                           most->p50_us, most->p99_us, kLate.count()));
}

}  // namespace tessera::testing
