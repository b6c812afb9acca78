#include "draw/held_parts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

struct Compiled {
  StepGraph step;
  std::vector<Program> programs;
};

Compiled compile(RunSpec spec) {
  Compiled run;
  run.step = build_step(testing::resolved(std::move(spec)), StepKind::kTraining);
  run.programs = compile_ranks(run.step);
  return run;
}

RunSpec spec_of(const std::string& mesh, int64_t micro_batch = 2) {
  RunSpec spec = testing::small_spec(mesh);
  spec.train.micro_batch = micro_batch;
  spec.train.seq_len = 16;
  return spec;
}

const HeldTensor& find(const std::vector<HeldTensor>& tensors, const std::string& label) {
  for (const HeldTensor& tensor : tensors) {
    if (tensor.label == label) return tensor;
  }
  throw Error("nothing is called " + label);
}

// How many of `ranks` hold each element.
std::vector<int> holders(const HeldTensor& tensor, const std::vector<int>& ranks) {
  std::vector<int> counts(static_cast<size_t>(tensor.rows * tensor.cols));
  for (const int rank : ranks) {
    for (const Rect& rect : tensor.by_rank[static_cast<size_t>(rank)]) {
      for (int64_t r = 0; r < rect.num_rows; ++r) {
        for (int64_t c = 0; c < rect.num_cols; ++c) {
          const int64_t at = (rect.first_row + r) * tensor.cols + rect.first_col + c;
          ++counts.at(static_cast<size_t>(at));
        }
      }
    }
  }
  return counts;
}

std::vector<int> all_ranks(const Compiled& run) {
  std::vector<int> ranks;
  for (const Program& program : run.programs) ranks.push_back(program.rank);
  return ranks;
}

class HeldPartsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(HeldPartsTest, EveryElementIsHeldEquallyOftenAndActivationsAsTheirTypeSays) {
  RunSpec spec = spec_of(GetParam());
  if (std::string_view(GetParam()).find("ep=") != std::string_view::npos) {
    spec.model.family = ModelFamily::kMixtral;
    spec.model.experts = 4;
    spec.model.moe_ffn = 24;
  }
  const Compiled run = compile(std::move(spec));
  for (const HeldTensor& tensor : held_tensors(run.step, run.programs)) {
    const std::vector<int> counts = holders(tensor, all_ranks(run));
    const std::set<int> distinct(counts.begin(), counts.end());
    EXPECT_EQ(distinct.size(), 1U) << tensor.label;
    EXPECT_GE(*distinct.begin(), 1) << tensor.label;
  }
  const Graph& graph = run.step.graph();
  for (const Node& node : graph.nodes()) {
    for (const ValueId id : node.outputs) {
      const Value& value = graph.value(id);
      if (value.name != "tokens" && value.name != "layers.0.mid" && value.name != "layers.0.q" &&
          value.name != "layers.0.kv" && value.name != "layers.0.q.heads")
        continue;
      const HeldTensor held = held_value(run.step, value.name, value.type);
      for (const int rank : all_ranks(run)) {
        EXPECT_EQ(held.elements_of(rank), numel(local_shape(value.type, run.step.mesh)))
            << value.name << " on rank " << rank;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, HeldPartsTest,
                         ::testing::Values("dp=2,zero=0", "dp=4,zero=1", "dp=2,zero=2", "fsdp=4",
                                           "dp=2,fsdp=2", "tp=4",
                                           "tp=2,dp=2,zero=1,sequence_parallel=true", "cp=2",
                                           "cp=4,zero=3", "cp=2,tp=2,sequence_parallel=true",
                                           "cp=2,tp=2,cp_kind=ulysses", "cp=4,cp_kind=allgather",
                                           "pp=2,dp=2,zero=1", "tp=2,dp=2,ep=2", "fsdp=4,ep=2"));

TEST(HeldPartsTest, ZeroStagesSplitOneStateAfterTheOther) {
  const std::vector<std::string> labels = {"weights, kept", "gradients, kept", "optimizer states"};
  for (int zero = 0; zero <= 3; ++zero) {
    RunSpec spec = spec_of(fmt::format("dp=4,zero={}", zero));
    spec.train.global_batch = 16;  // two micro-batches
    const Compiled run = compile(std::move(spec));
    const std::vector<HeldTensor> tensors = held_tensors(run.step, run.programs);
    for (size_t i = 0; i < labels.size(); ++i) {
      const HeldTensor& tensor = find(tensors, labels[i]);
      const bool split = static_cast<int>(labels.size() - i) <= zero;
      const std::vector<int> counts = holders(tensor, all_ranks(run));
      EXPECT_EQ(counts.front(), split ? 1 : 4) << labels[i] << ", ZeRO-" << zero;
    }
    EXPECT_EQ(find(tensors, "down weight, in use").elements_of(3), 16 * 24);
    EXPECT_EQ(find(tensors, "gradients, kept").partial, zero < 2) << zero;
  }
}

TEST(HeldPartsTest, ContextParallelRanksHoldAnEarlyAndALateChunk) {
  const Compiled run = compile(spec_of("cp=2", 1));
  const HeldTensor tokens = find(held_tensors(run.step, run.programs), "tokens");
  EXPECT_EQ(tokens.by_rank[0], (std::vector<Rect>{{0, 4, 0, 1}, {12, 4, 0, 1}}));
  EXPECT_EQ(tokens.by_rank[1], (std::vector<Rect>{{4, 8, 0, 1}}));
}

TEST(HeldPartsTest, SequenceParallelismSlicesWhatContextParallelismLeaves) {
  const Compiled run = compile(spec_of("cp=2,tp=2,sequence_parallel=true", 1));
  const HeldTensor x = find(held_tensors(run.step, run.programs), "residual stream");
  EXPECT_EQ(x.by_rank[0], (std::vector<Rect>{{0, 4, 0, 16}}));   // cp0 tp0
  EXPECT_EQ(x.by_rank[1], (std::vector<Rect>{{12, 4, 0, 16}}));  // cp0 tp1
  EXPECT_EQ(x.by_rank[2], (std::vector<Rect>{{4, 4, 0, 16}}));   // cp1 tp0
}

TEST(HeldPartsTest, TensorParallelismCutsRowsOfTheFirstAndColumnsOfTheSecondMatrix) {
  const Compiled run = compile(spec_of("tp=2"));
  const std::vector<HeldTensor> tensors = held_tensors(run.step, run.programs);
  EXPECT_EQ(find(tensors, "query weight, in use").by_rank[1], (std::vector<Rect>{{8, 8, 0, 16}}));
  EXPECT_EQ(find(tensors, "down weight, in use").by_rank[1], (std::vector<Rect>{{0, 16, 12, 12}}));
  EXPECT_TRUE(find(tensors, "MLP, before its sum").partial);
  EXPECT_FALSE(find(tensors, "residual stream").partial);
}

TEST(HeldPartsTest, AShardIsASliceOfThePartThatTpLeaves) {
  const Compiled run = compile(spec_of("fsdp=2,tp=2"));
  const HeldTensor kept = find(held_tensors(run.step, run.programs), "weights, kept");
  const int64_t quarter = kept.cols / 4;
  for (int64_t rank = 0; rank < 4; ++rank) {
    const int64_t place = rank % 2 * 2 + rank / 2;  // tp first
    EXPECT_EQ(kept.by_rank[static_cast<size_t>(rank)],
              (std::vector<Rect>{{0, 1, place * quarter, quarter}}));
  }
}

TEST(HeldPartsTest, PipelineRanksHoldTheirUnits) {
  const Compiled run = compile(spec_of("pp=2"));
  const std::vector<HeldTensor> tensors = held_tensors(run.step, run.programs);
  const HeldTensor& units = find(tensors, "units of the model");
  EXPECT_EQ(units.by_rank[0], (std::vector<Rect>{{0, 2, 0, 1}}));  // embedding, block 0
  EXPECT_EQ(units.by_rank[1], (std::vector<Rect>{{2, 2, 0, 1}}));  // block 1, head
  EXPECT_TRUE(find(tensors, "tokens").by_rank[1].empty());
  EXPECT_EQ(find(tensors, "optimizer states").by_rank[1].size(), 1U) << "of its own first block";
}

TEST(HeldPartsTest, TypesNameAllAxesOfSeveralRanks) {
  const Compiled run = compile(spec_of("dp=2,tp=2"));
  const TensorType type{DType::kF32, {8, 4}, {}};
  EXPECT_EQ(type_text(type.with(Axis::kDp, split(0)), run.step.mesh), "f32 8x4 dp:S(0) tp:I");
}

}  // namespace
}  // namespace tessera
