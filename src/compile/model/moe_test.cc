#include "compile/model/moe.h"

#include <gtest/gtest.h>

#include <map>

#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

using testing::resolved;
using testing::small_spec;

RunSpec moe_spec(const std::string& mesh) {
  RunSpec spec = small_spec(mesh);
  spec.model.family = ModelFamily::kMixtral;
  spec.model.experts = 8;
  spec.model.experts_per_token = 3;
  spec.model.router_aux_coef = 0.1;
  return resolved(spec);
}

class ExpertLayout : public ::testing::TestWithParam<const char*> {};

TEST_P(ExpertLayout, EveryExpertIsWholeOnOneRankOfEp) {
  const RunSpec spec = moe_spec(GetParam());
  const Mesh mesh = mesh_of(spec.parallel);
  const ParameterLayout layout = layout_parameters(spec, mesh);
  EXPECT_EQ(mesh.size(layout.expert_axes), spec.parallel.ep);
  int tensors = 0;
  for (const Bucket& bucket : layout.buckets) {
    if (!bucket.experts) continue;
    EXPECT_EQ(bucket.numel % (16 * layout.shards_of(bucket)), 0) << bucket.name;
    for (const Weight& weight : bucket.weights) {
      EXPECT_EQ(local_shape(weight.type, mesh), weight.local_shape) << weight.name;
      for (const LogicalTensor& part : weight.parts) {
        int64_t rows = 0;
        for (int64_t position = 0; position < spec.parallel.ep; ++position) {
          const Piece piece = piece_of(part, position);
          rows += piece.num_rows;
          if (piece.num_rows == 0) continue;
          EXPECT_EQ(piece.num_rows, part.rows()) << part.name;
          EXPECT_LE(piece.bucket_offset + numel(part.shape),
                    weight.offset + numel(weight.local_shape));
        }
        EXPECT_EQ(rows, part.rows()) << part.name;
        ++tensors;
      }
    }
  }
  EXPECT_EQ(tensors, 2 * 8 * 3);
}

TEST_P(ExpertLayout, EveryElementOfTheGradientHasOneOwner) {
  const StepGraph step = build_step(moe_spec(GetParam()), StepKind::kTraining);
  std::map<int64_t, int64_t> owned;  // by bucket
  for (const Program& program : compile_ranks(step)) {
    for (const Instruction& i : program.instructions) {
      if (i.op != OpKind::kSumSquares) continue;
      for (size_t b = 0; b < i.inputs.size(); ++b) {
        owned[i.args.buckets[b].index] += numel(program.buffer(i.inputs[b]).shape);
      }
    }
  }
  for (size_t b = 0; b < step.layout.buckets.size(); ++b) {
    const Bucket& bucket = step.layout.buckets[b];
    const int64_t copies = step.mesh.size(step.layout.split_axes_of(bucket));
    EXPECT_EQ(owned[static_cast<int64_t>(b)], bucket.numel * copies) << bucket.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, ExpertLayout,
                         ::testing::Values("dp=2", "tp=2", "tp=2,ep=2", "fsdp=2,ep=2,zero=0",
                                           "fsdp=2,ep=2,zero=3", "dp=2,fsdp=2,ep=2,zero=1",
                                           "fsdp=2,tp=2,ep=2", "fsdp=2,tp=2,ep=4",
                                           "cp=2,ep=2,zero=1", "fsdp=2,cp=2,tp=2,ep=8",
                                           "fsdp=4,ep=2,zero=3", "fsdp=4,tp=2,ep=4,zero=1",
                                           "dp=2,fsdp=4,ep=2,zero=2"));

TEST(MoeCapacity, IsTheWorstCaseUnlessAFactorIsLess) {
  const auto capacity = [](const std::string& mesh) {
    const RunSpec spec = moe_spec(mesh);
    return moe_capacity(spec, mesh_of(spec.parallel));
  };
  // 8 tokens of a rank, 3 of 8 experts each.
  EXPECT_EQ(capacity("dp=1"), 24);
  EXPECT_EQ(capacity("dp=1,moe_capacity=1"), 24);
  EXPECT_EQ(capacity("fsdp=2,ep=2"), 24);
  EXPECT_EQ(capacity("fsdp=4,ep=4"), 16);  // two experts of a rank take two rows of a token
  EXPECT_EQ(capacity("fsdp=2,ep=2,moe_capacity=1"), 12);
  EXPECT_EQ(capacity("fsdp=4,ep=4,moe_capacity=1.3"), 8);  // 7.8
  EXPECT_EQ(capacity("fsdp=4,ep=4,moe_capacity=9"), 16);
  EXPECT_EQ(capacity("tp=2,ep=2,moe_capacity=1"), 6);
}

// Four exchanges of rows and one of counts for every layer, in blocks of the capacity.
TEST(MoeTraffic, IsWhatTheDocumentationSays) {
  const RunSpec spec = moe_spec("fsdp=4,ep=4,zero=0,moe_capacity=1");
  const StepGraph step = build_step(spec, StepKind::kTraining);
  const int64_t capacity = 6, element = 4, experts_of_rank = 2;
  const int64_t rows = 3 * capacity * spec.model.hidden * element;
  const int64_t counts = 3 * experts_of_rank * 4;
  for (const Program& program : compile_ranks(step)) {
    int64_t bytes = 0, calls = 0;
    for (const Traffic& traffic : traffic_of(program)) {
      if (traffic.op != "all_to_all") continue;
      EXPECT_EQ(traffic.group, "fsdp");
      bytes += traffic.bytes_sent;
      calls += traffic.calls;
    }
    EXPECT_EQ(calls, spec.model.layers * 5);
    EXPECT_EQ(bytes, spec.model.layers * (4 * rows + counts));
  }
}

}  // namespace
}  // namespace tessera
