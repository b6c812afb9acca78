#include "compile/scale/rank_class.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "base/error.h"
#include "base/hash.h"
#include "base/testing/share.h"
#include "compile/step.h"
#include "compile/testing/random_run.h"
#include "compile/testing/test_spec.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

// Everything that decides what a rank's step costs: not its peers, nor which part of a tensor it
// holds.
uint64_t work_of(const Program& program) {
  Hasher hasher;
  for (const int64_t bytes : program.arena_bytes) hasher.add(bytes);
  for (const Instruction& i : program.instructions) {
    hasher.add(static_cast<int>(i.op));
    hasher.add(static_cast<int>(i.collective));
    hasher.add(i.group.bits());
    hasher.add(i.ends_only);
    hasher.add(static_cast<int>(i.stream));
    hasher.add(i.accumulate);
    hasher.add(i.micro_batch);
    for (const auto* ids : {&i.inputs, &i.outputs}) {
      for (const BufferId id : *ids) {
        hasher.add(static_cast<int>(program.buffer(id).arena));
        hasher.add(program.buffer(id).bytes());
      }
    }
    for (const int event : i.waits) hasher.add(event);
    hasher.add(i.signal);
  }
  return hasher.value();
}

using Key = std::tuple<int, bool, bool, bool>;
Key key_of(const RankClass& c) {
  return {c.pipeline_rank, c.counts_split, c.counts_whole, c.counts_experts};
}

TEST(RankClass, RanksOfAClassHaveTheSameWork) {
  testing::RandomRun random(7);
  int64_t done = 0;
  int64_t shared = 0;  // ranks that are not the first of their class
  const testing::Share runs = testing::share_of(60, 4);
  while (done < runs.end) {
    RunSpec spec = random.next();
    if (!testing::RandomRun::make_possible(spec)) continue;
    if (++done <= runs.begin) continue;
    const StepGraph step = build_step(spec, StepKind::kTraining);
    std::map<Key, RankClass> classes;
    for (const RankClass& c : rank_classes(step.mesh, step.layout)) classes[key_of(c)] = c;
    std::map<Key, uint64_t> work;
    std::map<Key, int64_t> ranks;
    for (int rank = 0; rank < static_cast<int>(step.mesh.world()); ++rank) {
      const Key key = key_of(class_of(step.mesh, step.layout, rank));
      const uint64_t mine = work_of(lower(step, rank));
      const auto [first, fresh] = work.try_emplace(key, mine);
      shared += fresh ? 0 : 1;
      ++ranks[key];
      ASSERT_TRUE(classes.contains(key));
      if (fresh) {
        EXPECT_EQ(classes[key].first_rank, rank);
      }
      ASSERT_EQ(first->second, mine) << "rank " << rank << " of " << step.mesh.describe(rank);
    }
    for (const auto& [key, c] : classes) EXPECT_EQ(c.ranks, ranks[key]);
  }
  EXPECT_GT(shared, runs.size());
}

TEST(RankClass, TellsRanksThatCountTheNormFromOthers) {
  const RunSpec spec = testing::resolved(testing::small_spec("dp=2,tp=2,pp=2"));
  const StepGraph step = build_step(spec, StepKind::kTraining);
  const std::vector<RankClass> classes = rank_classes(step.mesh, step.layout);
  ASSERT_EQ(classes.size(), 4U);  // two stages, the first rank of tp or not
  EXPECT_EQ(classes[0].ranks, 2);
  EXPECT_EQ(classes[2].first_rank, 4);
  EXPECT_NE(work_of(lower(step, classes[0].first_rank)),
            work_of(lower(step, classes[1].first_rank)));
}

}  // namespace
}  // namespace tessera
