// The closed forms against the schedules, and the table of docs/collectives.md against the forms.
// After a change that is meant:
//   TESSERA_UPDATE_GOLDEN=1 collective_test --gtest_filter='CostTable*'
#include "collective/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "collective/all_ranks.h"

namespace tessera {
namespace {

constexpr int kRanks[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16};

CollectiveCost counted(const CostForm& form, const CostShape& shape, int root) {
  std::vector<int> nodes;
  for (int rank = 0; rank < shape.ranks && shape.ranks_per_node > 0; ++rank) {
    nodes.push_back(rank / shape.ranks_per_node);
  }
  const auto schedules =
      make_schedules({.op = form.op,
                      .algorithm = form.algorithm,
                      .ranks = shape.ranks,
                      .root = root,
                      .count = form.op == CollectiveOp::kBarrier ? 0 : shape.count,
                      .element_bytes = shape.element_bytes,
                      .nodes = nodes});
  CollectiveCost cost;
  for (const CollectiveSchedule& schedule : schedules) {
    cost.bytes_sent = std::max(cost.bytes_sent, bytes_sent(schedule));
  }
  cost.steps = num_steps(schedules);
  return cost;
}

// All but send, whose two ends are different ops: one message, nothing to derive.
std::vector<CostForm> collective_forms() {
  std::vector<CostForm> forms(cost_forms().begin(), cost_forms().end());
  std::erase_if(forms, [](const CostForm& form) { return is_point_to_point(form.op); });
  return forms;
}

class CostFormTest : public ::testing::TestWithParam<CostForm> {};

TEST_P(CostFormTest, MatchesTheSchedules) {
  const CostForm& form = GetParam();
  for (const int ranks : kRanks) {
    for (int per_node = 1; per_node <= ranks; ++per_node) {
      if (ranks % per_node != 0) continue;
      if (form.algorithm != Algorithm::kHierarchical && per_node > 1) break;
      for (const int64_t element_bytes : {1, 4, 8}) {
        for (const int64_t count : {1, 7, 129, 1001, 16 * 4096, 100'003}) {
          const CostShape shape{ranks, count, element_bytes,
                                form.algorithm == Algorithm::kHierarchical ? per_node : 0};
          const CollectiveCost want = closed_form_cost(form.op, form.algorithm, shape);
          const int root = has_root(form.op) ? ranks / 2 : 0;
          const CollectiveCost have = counted(form, shape, root);
          EXPECT_EQ(have.bytes_sent, want.bytes_sent)
              << ranks << " ranks by " << per_node << ", count " << count;
          // A block without elements is not sent, which may save a step.
          if (count > 100 * ranks) {
            EXPECT_EQ(have.steps, want.steps) << ranks << " ranks";
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, CostFormTest, ::testing::ValuesIn(collective_forms()),
                         [](const auto& test) {
                           return fmt::format("{}_{}", name_of(test.param.op),
                                              name_of(test.param.algorithm));
                         });

TEST(CostTableTest, HasEveryAlgorithmOfEveryOp) {
  for (int i = 0; i < kNumCollectiveOps; ++i) {
    const auto op = static_cast<CollectiveOp>(i);
    if (op == CollectiveOp::kAllToAllV || op == CollectiveOp::kReceive) continue;
    for (const Algorithm algorithm : supported_algorithms(op)) {
      EXPECT_EQ(std::count_if(cost_forms().begin(), cost_forms().end(),
                              [&](const CostForm& form) {
                                return form.op == op && form.algorithm == algorithm;
                              }),
                1)
          << name_of(op) << " " << name_of(algorithm);
    }
  }
}

// What lessons on collectives say, in figures: 4 ranks, 1 MiB.
TEST(CostTableTest, KnownFigures) {
  const CostShape four{4, 1 << 18, 4};
  constexpr int64_t kMiB = 1 << 20;
  const auto cost = [&](CollectiveOp op, Algorithm algorithm) {
    return closed_form_cost(op, algorithm, four);
  };
  EXPECT_EQ(cost(CollectiveOp::kAllReduce, Algorithm::kRing), (CollectiveCost{3 * kMiB / 2, 6}));
  EXPECT_EQ(cost(CollectiveOp::kAllReduce, Algorithm::kDirect), (CollectiveCost{3 * kMiB / 2, 2}));
  EXPECT_EQ(cost(CollectiveOp::kAllReduce, Algorithm::kDoubling),
            (CollectiveCost{3 * kMiB / 2, 4}));
  EXPECT_EQ(cost(CollectiveOp::kBroadcast, Algorithm::kTree), (CollectiveCost{2 * kMiB, 2}));
  EXPECT_EQ(cost(CollectiveOp::kAllGather, Algorithm::kRing), (CollectiveCost{3 * kMiB, 3}));
}

TEST(CostTableTest, TheDocumentShowsIt) {
  const std::string path = std::string(TESSERA_SOURCE_DIR) + "/docs/collectives.md";
  const std::string begin = "<!-- cost table: begin -->\n";
  const std::string end = "<!-- cost table: end -->\n";
  std::ifstream in(path, std::ios::binary);
  ASSERT_TRUE(in.is_open()) << path;
  std::stringstream read;
  read << in.rdbuf();
  std::string document = read.str();
  const size_t first = document.find(begin);
  const size_t last = document.find(end);
  ASSERT_TRUE(first != std::string::npos && last != std::string::npos && first < last)
      << path << " has no markers " << begin << end;
  const size_t at = first + begin.size();
  if (std::getenv("TESSERA_UPDATE_GOLDEN") != nullptr) {
    document.replace(at, last - at, cost_table_markdown());
    std::ofstream(path, std::ios::binary) << document;
    return;
  }
  EXPECT_EQ(document.substr(at, last - at), cost_table_markdown())
      << path << " is not what the code says: run with TESSERA_UPDATE_GOLDEN=1";
}

}  // namespace
}  // namespace tessera
