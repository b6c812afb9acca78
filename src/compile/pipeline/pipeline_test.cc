#include "compile/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "compile/pipeline/schedule/replay.h"
#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

using testing::resolved;
using testing::small_spec;

struct Case {
  const char* schedule;
  int ranks;
  int virtual_stages;
  int micro_batches;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.schedule << " p=" << c.ranks << " m=" << c.micro_batches;
}

StepGraph step_of(const Case& c, bool tied = false) {
  RunSpec spec = small_spec(
      fmt::format("pp={},schedule={},virtual_stages={}", c.ranks, c.schedule, c.virtual_stages));
  spec.model.layers = int64_t{c.ranks} * c.virtual_stages;
  spec.model.tied = tied;
  spec.train.global_batch = c.micro_batches;
  return build_step(resolved(spec), StepKind::kTraining);
}

std::string failure(const std::function<void()>& f) {
  return testing::message_of<std::exception>([&] { f(); });
}

class PipelineTest : public ::testing::TestWithParam<Case> {};

// The lanes that memory is reserved for are the micro-batches that the schedule has in flight.
TEST_P(PipelineTest, LanesAreTheMicroBatchesInFlight) {
  const StepGraph step = step_of(GetParam());
  const ScheduleFacts facts = facts_of(replay(step.stages.schedule));
  for (int rank = 0; rank < GetParam().ranks; ++rank) {
    int lanes = 0;
    for (const auto& [stage, live] : lower(step, rank).live_micro_batches) lanes += live;
    // Stages of one rank reach their peaks at different times.
    EXPECT_GE(lanes, facts.ranks[static_cast<size_t>(rank)].peak_live) << "rank " << rank;
    if (GetParam().virtual_stages == 1) {
      EXPECT_EQ(lanes, facts.ranks[static_cast<size_t>(rank)].peak_live) << "rank " << rank;
    }
  }
}

TEST_P(PipelineTest, EveryMessageIsSentAndReceivedOnce) {
  const StepGraph step = step_of(GetParam(), /*tied=*/true);
  int sent = 0;
  int received = 0;
  for (const std::vector<PipelineItem>& items : step.pipeline.items) {
    for (const PipelineItem& item : items) {
      sent += item.kind == PipelineItem::Kind::kSend ? 1 : 0;
      received += item.kind == PipelineItem::Kind::kReceive ? 1 : 0;
    }
  }
  const std::vector<int>& place = step.stages.schedule.rank_of_stage;
  int borders = 0;
  for (size_t s = 1; s < place.size(); ++s) borders += place[s] != place[s - 1] ? 1 : 0;
  EXPECT_EQ(sent, 2 * borders * GetParam().micro_batches);
  EXPECT_EQ(received, sent);
  EXPECT_NO_THROW(compile_ranks(step));
}

INSTANTIATE_TEST_SUITE_P(Schedules, PipelineTest,
                         ::testing::Values(Case{"naive", 3, 1, 4}, Case{"gpipe", 4, 1, 6},
                                           Case{"1f1b", 2, 1, 5}, Case{"1f1b", 4, 1, 8},
                                           Case{"1f1b", 4, 1, 2}, Case{"zb-h1", 4, 1, 8},
                                           Case{"zb-h2", 4, 1, 9}, Case{"interleaved", 2, 2, 4},
                                           Case{"interleaved", 2, 3, 6}, Case{"zb-v", 3, 2, 7},
                                           Case{"dualpipe-v", 2, 2, 6}));

TEST(Pipeline, OneFOneBHoldsAtMostTheRanksBelowIt) {
  const StepGraph step = step_of({"1f1b", 4, 1, 16});
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(lower(step, rank).live_micro_batches.at(rank), 4 - rank);
  }
}

TEST(Pipeline, GpipeKeepsEightTimesTheActivationsOfOneFOneB) {
  const auto activations = [](const char* schedule) {
    const Program program = lower(step_of({schedule, 4, 1, 32}), 0);
    return program.arena_bytes[static_cast<size_t>(ArenaKind::kActivations)];
  };
  EXPECT_GE(activations("gpipe"), 6 * activations("1f1b"));
}

TEST(Pipeline, ACircleOfWaitsIsFoundBeforeAnythingStarts) {
  StepGraph step = step_of({"1f1b", 2, 1, 4});
  std::vector<PipelineItem>& items = step.pipeline.items[0];
  // Rank 0 wants the gradient of the first micro-batch before it sends it.
  const auto send = std::find_if(items.begin(), items.end(), [](const PipelineItem& item) {
    return item.kind == PipelineItem::Kind::kSend;
  });
  const auto receive = std::find_if(items.begin(), items.end(), [](const PipelineItem& item) {
    return item.kind == PipelineItem::Kind::kReceive;
  });
  std::swap(*send, *receive);
  EXPECT_NE(failure([&] { check_messages(step.pipeline, step.stages); }).find("waits for ever"),
            std::string::npos);
}

TEST(Pipeline, UnmatchedMessagesAreNamed) {
  const StepGraph step = step_of({"1f1b", 2, 1, 3});
  const std::vector<Program> good = compile_ranks(step);
  std::vector<Program> lost = good;
  std::erase_if(lost[1].instructions, [](const Instruction& i) {
    return i.op == OpKind::kReceive && i.micro_batch == 2;
  });
  EXPECT_NE(failure([&] { check_collectives(lost); })
                .find("message 2 from rank 0 to 1: 'layers.0.out' of micro-batch 2 (f32, 128) is "
                      "sent, nothing is received"),
            std::string::npos);
  std::vector<Program> swapped = good;
  std::vector<Instruction*> sends;
  for (Instruction& i : swapped[0].instructions) {
    if (i.op == OpKind::kSend) sends.push_back(&i);
  }
  std::swap(*sends[0], *sends[1]);
  EXPECT_NE(failure([&] { check_collectives(swapped); }).find("message 0 from rank 0 to 1"),
            std::string::npos);
}

TEST(Pipeline, StagesAreRefusedWithAReason) {
  const auto refused = [](const char* mesh) {
    RunSpec spec = small_spec(mesh);
    spec.train.global_batch = 4;  // enough micro-batches for every schedule
    return failure([&] { build_step(resolved(spec), StepKind::kTraining); });
  };
  EXPECT_NE(refused("pp=3").find("3 stages for 2 layers"), std::string::npos);
  EXPECT_NE(refused("pp=2,schedule=interleaved,virtual_stages=3").find("6 stages for 2 layers"),
            std::string::npos);
  EXPECT_NE(refused("pp=2,stage_layers=1+2").find("adds up to 3 but the model has 2"),
            std::string::npos);
  EXPECT_NE(refused("pp=2,stage_layers=1+0+1").find("has 3 numbers but the pipeline has 2 stages"),
            std::string::npos);
}

TEST(Pipeline, EndsMayBeVirtualStagesOfTheirOwn) {
  const auto layers = [](int64_t of_model, const char* mesh) {
    RunSpec spec = small_spec(mesh);
    spec.model.layers = of_model;
    spec = resolved(spec);
    return layers_per_stage(spec,
                            static_cast<int>(spec.parallel.pp * spec.parallel.virtual_stages));
  };
  using Layers = std::vector<int64_t>;
  EXPECT_EQ(layers(2, "pp=2,schedule=interleaved,virtual_stages=2"), (Layers{0, 1, 1, 0}));
  EXPECT_EQ(layers(3, "pp=2,schedule=interleaved,virtual_stages=2"), (Layers{1, 1, 1, 0}));
  const Layers llama3 = layers(126, "pp=16,schedule=interleaved,virtual_stages=8");
  EXPECT_EQ(llama3.front(), 0);
  EXPECT_EQ(llama3.back(), 0);
  EXPECT_EQ(std::count(llama3.begin(), llama3.end(), 1), 126);
  EXPECT_EQ(layers(6, "pp=2,schedule=interleaved,virtual_stages=2,stage_layers=1+2+2+1"),
            (Layers{1, 2, 2, 1}));
}

// The tied embedding on both ends: one bucket each, same layout, one sum, counted once.
TEST(Pipeline, ATiedEmbeddingIsSummedBetweenTheEnds) {
  const StepGraph step = step_of({"1f1b", 3, 1, 3}, /*tied=*/true);
  int sums = 0;
  int squares = 0;
  for (const Program& program : compile_ranks(step)) {
    for (const Instruction& i : program.instructions) {
      sums += i.op == OpKind::kTieSum ? 1 : 0;
      for (const BucketArgs& summed : i.args.buckets) {
        if (i.op != OpKind::kSumSquares) continue;
        const std::string& name = step.layout.buckets[static_cast<size_t>(summed.index)].name;
        squares += name == "embed.matrices" ? 1 : 0;
        EXPECT_NE(name, "head.tied");
      }
      if (i.op == OpKind::kTieSum) {
        EXPECT_EQ(members_of(program, group_of(i)), (std::vector<int>{0, 2}));
      }
    }
  }
  EXPECT_EQ(sums, 2);
  EXPECT_EQ(squares, 1);
  // Where both ends lie on one rank there is nothing to sum.
  for (const Program& program : compile_ranks(step_of({"zb-v", 2, 2, 4}, /*tied=*/true))) {
    for (const Instruction& i : program.instructions) EXPECT_NE(i.op, OpKind::kTieSum);
  }
}

}  // namespace
}  // namespace tessera
