// Every schedule, executed on vectors: right results, matching messages, no deadlock, no step that
// depends on another of its round, and the bits of the in-order sum where that is promised.
#include "collective/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "collective/all_ranks.h"
#include "collective/testing/interpret.h"

namespace tessera {
namespace {

using testing::Interpreter;
using testing::RankBuffers;

struct Case {
  CollectiveOp op;
  Algorithm algorithm;
  int ranks = 1;
  int root = 0;
  int64_t count = 0;
  bool in_place = false;
  std::vector<int> nodes = {};

  [[nodiscard]] ScheduleRequest request() const {
    return {.op = op,
            .algorithm = algorithm,
            .ranks = ranks,
            .root = root,
            .count = count,
            .element_bytes = 4,
            .in_place = in_place && op == CollectiveOp::kAllToAll,
            .nodes = nodes};
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{} {} of {} ranks, root {}, count {}{}, nodes [{}]", name_of(algorithm),
                       name_of(op), ranks, root, count, in_place ? ", in place" : "",
                       fmt::join(nodes, " "));
  }
};

// Values whose sum shows the order it was taken in, if T rounds; exact otherwise.
template <typename T>
T value_of(int rank, int64_t i) {
  const auto h = static_cast<uint64_t>(i * 7919 + rank + 1) * 0x9E3779B97F4A7C15U;
  if constexpr (std::is_same_v<T, float>) {
    const double scale = static_cast<double>(1U << (h % 23)) / 1024.0;
    return static_cast<float>((static_cast<double>(h >> 40) / 16777216.0 - 0.5) * scale);
  } else {
    return static_cast<T>(h >> 44);
  }
}

// One rank's memory for a call, laid out as CollectiveCall says, in place or not.
template <typename T>
class Memory {
 public:
  Memory(const Case& test, int rank) : test_(test), rank_(rank) {
    const bool full_in = test.op == CollectiveOp::kScatter ||
                         test.op == CollectiveOp::kReduceScatter ||
                         test.op == CollectiveOp::kAllToAll;
    const bool full_out = test.op == CollectiveOp::kGather || test.op == CollectiveOp::kAllGather ||
                          test.op == CollectiveOp::kAllToAll;
    in_.resize(static_cast<size_t>(test.count * (full_in ? test.ranks : 1)));
    for (size_t i = 0; i < in_.size(); ++i) in_[i] = value_of<T>(rank, static_cast<int64_t>(i));
    out_.assign(static_cast<size_t>(test.count * (full_out ? test.ranks : 1)), kPoison);
    // A broadcast starts from `out`; everything else from `in`.
    if (test.op == CollectiveOp::kBroadcast && rank == test.root) out_ = in_;
    buffers_ = {in_.data(), out_.data()};
    if (!test.in_place || test.op == CollectiveOp::kBroadcast) return;
    if (full_in == full_out) buffers_.out = in_.data();
    if (full_in && !full_out) buffers_.out = in_.data() + rank * test.count;
    if (full_out && !full_in) {
      buffers_.in = out_.data() + rank * test.count;
      std::copy(in_.begin(), in_.end(), buffers_.in);
    }
  }

  [[nodiscard]] RankBuffers<T> buffers() const { return buffers_; }
  [[nodiscard]] bool out_is_input() const { return buffers_.out == in_.data(); }

  // Whether `in` outside of `out` is as it was.
  [[nodiscard]] bool input_is_untouched() const {
    const T* in = in_.data();
    for (int64_t i = 0; i < static_cast<int64_t>(in_.size()); ++i) {
      const bool is_output = in + i >= buffers_.out && in + i < buffers_.out + test_.count;
      if (!out_is_input() && !is_output && in[i] != value_of<T>(rank_, i)) return false;
    }
    return true;
  }

  static constexpr T kPoison = std::numeric_limits<T>::has_quiet_NaN
                                   ? std::numeric_limits<T>::quiet_NaN()
                                   : std::numeric_limits<T>::max();

 private:
  Case test_;
  int rank_;
  std::vector<T> in_;
  std::vector<T> out_;
  RankBuffers<T> buffers_;
};

template <typename T>
T sum_of(const Case& test, int64_t i, bool mean) {
  T sum = value_of<T>(0, i);
  for (int rank = 1; rank < test.ranks; ++rank) sum += value_of<T>(rank, i);
  return mean ? sum / static_cast<T>(test.ranks) : sum;
}

// What out[i] of `rank` must be.
template <typename T>
T expected(const Case& test, int rank, int64_t i, bool mean) {
  const int64_t count = test.count;
  const int block = static_cast<int>(i / count);
  switch (test.op) {
    case CollectiveOp::kBroadcast:
      return value_of<T>(test.root, i);
    case CollectiveOp::kScatter:
      return value_of<T>(test.root, rank * count + i);
    case CollectiveOp::kGather:
    case CollectiveOp::kAllGather:
      return value_of<T>(block, i % count);
    case CollectiveOp::kReduce:
    case CollectiveOp::kAllReduce:
      return sum_of<T>(test, i, mean);
    case CollectiveOp::kReduceScatter:
      return sum_of<T>(test, rank * count + i, mean);
    case CollectiveOp::kAllToAll:
      return value_of<T>(block, rank * count + i % count);
    default:
      return T{};
  }
}

int64_t output_size(const Case& test, int rank) {
  const bool root_only = test.op == CollectiveOp::kGather || test.op == CollectiveOp::kReduce;
  if ((root_only && rank != test.root) || test.op == CollectiveOp::kBarrier) return 0;
  const bool full = test.op == CollectiveOp::kGather || test.op == CollectiveOp::kAllGather ||
                    test.op == CollectiveOp::kAllToAll;
  return test.count * (full ? test.ranks : 1);
}

template <typename T>
void check(const Case& test, bool mean, uint32_t seed) {
  SCOPED_TRACE(test.text());
  std::vector<Memory<T>> memories;
  memories.reserve(static_cast<size_t>(test.ranks));
  std::vector<RankBuffers<T>> buffers;
  for (int rank = 0; rank < test.ranks; ++rank) {
    memories.emplace_back(test, rank);
    buffers.push_back(memories.back().buffers());
  }
  const std::vector<CollectiveSchedule> schedules = make_schedules(test.request());
  ASSERT_NO_THROW(Interpreter<T>(schedules, buffers, Memory<T>::kPoison, mean, seed).run());
  for (int rank = 0; rank < test.ranks; ++rank) {
    const T* out = buffers[static_cast<size_t>(rank)].out;
    for (int64_t i = 0; i < output_size(test, rank); ++i) {
      ASSERT_EQ(out[i], expected<T>(test, rank, i, mean)) << "rank " << rank << " element " << i;
    }
    EXPECT_TRUE(memories[static_cast<size_t>(rank)].input_is_untouched()) << "rank " << rank;
  }
}

std::vector<std::vector<int>> node_patterns(int ranks) {
  std::vector<std::vector<int>> patterns(4);
  for (int rank = 0; rank < ranks; ++rank) {
    patterns[0].push_back(rank);                         // each on its own
    patterns[1].push_back(rank / 2);                     // pairs, one alone if odd
    patterns[2].push_back(rank % 2);                     // two nodes, interleaved
    patterns[3].push_back(rank < 3 ? 7 : 3 + rank / 5);  // uneven
  }
  patterns.emplace_back();  // not said: one node
  return patterns;
}

void for_each_case(CollectiveOp op, const std::function<void(const Case&)>& visit) {
  for (const Algorithm algorithm : supported_algorithms(op)) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const auto patterns = algorithm == Algorithm::kHierarchical
                                ? node_patterns(ranks)
                                : std::vector<std::vector<int>>(1);
      for (const std::vector<int>& nodes : patterns) {
        for (int root = 0; root < (has_root(op) ? ranks : 1); ++root) {
          for (const int64_t count : {0, 1, 7, 1000}) {
            for (const bool in_place : {false, true}) {
              visit({op, algorithm, ranks, root, count, in_place, nodes});
            }
          }
        }
      }
    }
  }
}

class ScheduleTest : public ::testing::TestWithParam<CollectiveOp> {};

// Whole numbers, so every order of adding gives the same bits; a mean shows where it is divided.
TEST_P(ScheduleTest, GivesTheRightResult) {
  uint32_t seed = 1;
  for_each_case(GetParam(), [&](const Case& test) {
    check<double>(test, /*mean=*/reduces(test.op) && seed % 2 == 0, seed);
    ++seed;
  });
}

class SumScheduleTest : public ::testing::TestWithParam<CollectiveOp> {};

TEST_P(SumScheduleTest, SumsInOrderOfRankWherePromised) {
  uint32_t seed = 1;
  for_each_case(GetParam(), [&](const Case& test) {
    if (promises_rank_order(test.algorithm)) check<float>(test, /*mean=*/false, seed++);
  });
}

INSTANTIATE_TEST_SUITE_P(Ops, ScheduleTest,
                         ::testing::Values(CollectiveOp::kBroadcast, CollectiveOp::kScatter,
                                           CollectiveOp::kGather, CollectiveOp::kReduce,
                                           CollectiveOp::kAllGather, CollectiveOp::kReduceScatter,
                                           CollectiveOp::kAllReduce, CollectiveOp::kAllToAll,
                                           CollectiveOp::kBarrier),
                         [](const auto& test) { return std::string(name_of(test.param)); });

INSTANTIATE_TEST_SUITE_P(Ops, SumScheduleTest,
                         ::testing::Values(CollectiveOp::kReduce, CollectiveOp::kReduceScatter,
                                           CollectiveOp::kAllReduce),
                         [](const auto& test) { return std::string(name_of(test.param)); });

// A ring adds in another order, so the test above can fail.
TEST(ScheduleOrderTest, TheValuesShowTheOrder) {
  const Case test{CollectiveOp::kAllReduce, Algorithm::kRing, 4, 0, 1000};
  std::vector<Memory<float>> memories;
  memories.reserve(4);
  std::vector<RankBuffers<float>> buffers;
  for (int rank = 0; rank < 4; ++rank) {
    memories.emplace_back(test, rank);
    buffers.push_back(memories.back().buffers());
  }
  Interpreter<float>(make_schedules(test.request()), buffers, 0, false, 1).run();
  int different = 0;
  for (int64_t i = 0; i < 1000; ++i)
    different += buffers[0].out[i] != sum_of<float>(test, i, false);
  EXPECT_GT(different, 50);
}

// A barrier holds everybody until the last has come: whoever has passed has heard, directly or
// not, from every rank.
TEST(BarrierScheduleTest, HearsFromEveryRank) {
  for (const Algorithm algorithm : supported_algorithms(CollectiveOp::kBarrier)) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const auto schedules =
          make_schedules({.op = CollectiveOp::kBarrier, .algorithm = algorithm, .ranks = ranks});
      // heard[a][b]: a knows that b has arrived. Rounds have the same number at both ends.
      std::vector<std::vector<bool>> heard(static_cast<size_t>(ranks),
                                           std::vector<bool>(static_cast<size_t>(ranks)));
      for (size_t rank = 0; rank < heard.size(); ++rank) heard[rank][rank] = true;
      for (int round = 0; round < 2 * ranks; ++round) {
        const auto before = heard;
        for (size_t rank = 0; rank < heard.size(); ++rank) {
          for (const CollectiveStep& step : schedules[rank].steps) {
            if (step.round != round || step.action != StepAction::kReceive) continue;
            for (size_t k = 0; k < heard.size(); ++k) {
              if (before[static_cast<size_t>(step.peer)][k]) heard[rank][k] = true;
            }
          }
        }
      }
      for (const auto& row : heard) EXPECT_EQ(std::count(row.begin(), row.end(), true), ranks);
    }
  }
}

TEST(AllToAllVScheduleTest, GivesTheRightResult) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    const auto sent = [](int from, int to) { return int64_t{(from * 5 + to * 3) % 4}; };
    const auto n = static_cast<size_t>(ranks);
    std::vector<std::vector<int64_t>> send_counts(n), receive_counts(n);
    std::vector<std::vector<double>> in(n), out(n), want(n);
    std::vector<CollectiveSchedule> schedules;
    std::vector<RankBuffers<double>> buffers;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<size_t>(rank);
      for (int peer = 0; peer < ranks; ++peer) {
        send_counts[r].push_back(sent(rank, peer));
        receive_counts[r].push_back(sent(peer, rank));
        for (int64_t i = 0; i < sent(rank, peer); ++i) {
          in[r].push_back(rank * 100 + peer * 10 + static_cast<double>(i));
        }
        for (int64_t i = 0; i < sent(peer, rank); ++i) {
          want[r].push_back(peer * 100 + rank * 10 + static_cast<double>(i));
        }
      }
      out[r].resize(want[r].size());
      schedules.push_back(make_schedule({.op = CollectiveOp::kAllToAllV,
                                         .ranks = ranks,
                                         .rank = rank,
                                         .send_counts = send_counts[r],
                                         .receive_counts = receive_counts[r]}));
      buffers.push_back({in[r].data(), out[r].data()});
    }
    Interpreter<double>(schedules, buffers, -1, false, 3).run();
    EXPECT_EQ(out, want) << ranks;
  }
}

TEST(PointToPointScheduleTest, Matches) {
  double from = 5;
  double to = 0;
  const std::vector<CollectiveSchedule> schedules = {
      make_schedule({.op = CollectiveOp::kSend, .ranks = 2, .rank = 0, .root = 1, .count = 1}),
      make_schedule({.op = CollectiveOp::kReceive, .ranks = 2, .rank = 1, .root = 0, .count = 1})};
  Interpreter<double>(schedules, {{&from, nullptr}, {nullptr, &to}}, 0, false, 1).run();
  EXPECT_EQ(to, 5);
}

TEST(SupportTest, RefusesWithTheNamesOfTheSupported) {
  try {
    (void)make_schedule({.op = CollectiveOp::kScatter, .algorithm = Algorithm::kRing, .ranks = 2});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "scatter has no algorithm 'ring': use direct, naive, tree");
  }
}

TEST(SupportTest, EveryOpRunsWhatAutoMeans) {
  for (int op = 0; op < kNumCollectiveOps; ++op) {
    for (const int64_t bytes : {0, 1000, 100'000}) {
      for (int ranks = 1; ranks <= 9; ++ranks) {
        const Algorithm chosen = choose_algorithm(static_cast<CollectiveOp>(op), bytes, ranks);
        EXPECT_TRUE(supports(static_cast<CollectiveOp>(op), chosen));
        EXPECT_TRUE(promises_rank_order(chosen));
      }
    }
  }
}

TEST(ScheduleTextTest, OneLinePerStep) {
  const CollectiveSchedule schedule = make_schedule({.op = CollectiveOp::kReduceScatter,
                                                     .algorithm = Algorithm::kRing,
                                                     .ranks = 2,
                                                     .rank = 0,
                                                     .count = 3});
  EXPECT_EQ(to_text(schedule),
            "0: send in[3, 6) to 1\n"
            "0: receive scratch[0, 3) from 1\n"
            "1: complete scratch[0, 3) + in[0, 3) into out[0, 3)\n");
}

}  // namespace
}  // namespace tessera
