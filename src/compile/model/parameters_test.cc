#include "compile/model/parameters.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

using testing::resolved;
using testing::small_spec;

ParameterLayout layout_of(const RunSpec& spec) {
  return layout_parameters(spec, mesh_of(spec.parallel));
}

std::vector<std::string> bucket_names(const ParameterLayout& layout) {
  std::vector<std::string> names;
  for (const Bucket& bucket : layout.buckets) names.push_back(bucket.name);
  return names;
}

TEST(Parameters, BucketsFollowUnitPlacementAndDecay) {
  RunSpec spec = small_spec("dp=2,tp=2");
  spec.model.layers = 1;
  EXPECT_EQ(bucket_names(layout_of(resolved(spec))),
            (std::vector<std::string>{"embed.matrices", "layers.0.norms", "layers.0.matrices",
                                      "head.norms", "head.matrices"}));
  for (const Bucket& bucket : layout_of(resolved(spec)).buckets) {
    const bool norms = bucket.name.find("norms") != std::string::npos;
    EXPECT_EQ(bucket.decay, !norms) << bucket.name;
    EXPECT_EQ(bucket.split_on_tp, !norms) << bucket.name;
  }
}

TEST(Parameters, CountsEveryWeightOnce) {
  RunSpec spec = small_spec("tp=2");
  const int64_t block = 2 * 16 + 4 * 16 * 16 + 3 * 16 * 24;
  EXPECT_EQ(layout_of(resolved(spec)).num_parameters, 2 * block + 16 + 2 * 40 * 16);
  spec.model.tied = true;
  const ParameterLayout tied = layout_of(resolved(spec));
  EXPECT_EQ(tied.num_parameters, 2 * block + 16 + 40 * 16);
  for (const Bucket& bucket : tied.buckets) {
    for (const Weight& weight : bucket.weights) {
      for (const LogicalTensor& part : weight.parts) EXPECT_NE(part.name, "lm_head.weight");
    }
  }
}

// Too few key heads for tp: every rank keeps all of them, in a bucket of their own.
TEST(Parameters, FewKeyHeadsAreReplicated) {
  RunSpec spec = small_spec("tp=4");
  spec.model.layers = 1;
  spec.model.kv_heads = 2;
  spec = resolved(spec);
  EXPECT_FALSE(splits_kv_heads(spec.model, mesh_of(spec.parallel)));
  const ParameterLayout layout = layout_of(spec);
  EXPECT_EQ(bucket_names(layout),
            (std::vector<std::string>{"embed.matrices", "layers.0.norms", "layers.0.matrices",
                                      "layers.0.replicated", "head.norms", "head.matrices"}));
  const Bucket& kv = layout.buckets[3];
  EXPECT_FALSE(kv.split_on_tp);
  EXPECT_TRUE(kv.decay);
  EXPECT_EQ(kv.weights.front().local_shape, (Shape{2 * 2 * 4, 16}));
  spec.model.kv_heads = 4;
  EXPECT_TRUE(splits_kv_heads(spec.model, mesh_of(spec.parallel)));
}

TEST(Parameters, BucketsCloseWhenTheyAreLarge) {
  RunSpec spec = small_spec("dp=2");
  spec.model.layers = 1;
  spec.model.hidden = 512;
  spec.model.ffn = 512;
  spec.model.heads = 8;
  spec.model.kv_heads = 8;
  spec.model.head_dim = 64;
  spec.parallel.bucket_mb = 2;  // q and kv have 1 and 2 MB
  EXPECT_EQ(bucket_names(layout_of(resolved(spec))),
            (std::vector<std::string>{"embed.matrices", "layers.0.norms", "layers.0.matrices",
                                      "layers.0.matrices2", "layers.0.matrices3", "head.norms",
                                      "head.matrices"}));
  spec.parallel.bucket_mb = 25;
  EXPECT_EQ(layout_of(resolved(spec)).buckets.size(), 5U);
}

class EveryLayout : public ::testing::TestWithParam<const char*> {
 protected:
  // Sizes that no axis divides.
  static RunSpec spec() {
    RunSpec spec = small_spec(GetParam());
    spec.model.vocab = 37;
    spec.model.ffn = 26;
    spec.model.kv_heads = 2;
    return resolved(spec);
  }
};

TEST_P(EveryLayout, ShardsAreEqualAndAlignedAndWeightsDoNotOverlap) {
  const ParameterLayout layout = layout_of(spec());
  for (const Bucket& bucket : layout.buckets) {
    EXPECT_EQ(bucket.numel % layout.shards, 0) << bucket.name;
    EXPECT_EQ(layout.shard_numel(bucket) * 4 % 64, 0) << bucket.name;
    int64_t end = 0;
    for (const Weight& weight : bucket.weights) {
      EXPECT_GE(weight.offset, end) << weight.name;
      EXPECT_EQ(weight.offset * 4 % 64, 0) << weight.name;
      end = weight.offset + numel(weight.local_shape);
      EXPECT_EQ(local_shape(weight.type, mesh_of(spec().parallel)), weight.local_shape);
    }
    EXPECT_LE(end, bucket.numel);
    EXPECT_LT(bucket.numel - end, 16 * layout.shards) << bucket.name << " is padded too much";
  }
}

TEST_P(EveryLayout, ShardsLieOverFsdpWhereThereIsOneAndOverCp) {
  const ParameterLayout layout = layout_of(spec());
  const ParallelSpec parallel = spec().parallel;
  const bool fsdp = parallel.fsdp > 1;
  EXPECT_EQ(layout.shard_axes, (fsdp ? fsdp_axes() : AxisSet(Axis::kDp)).with(Axis::kCp));
  EXPECT_EQ(layout.replica_axes, fsdp ? AxisSet(Axis::kDp) : fsdp_axes());
  EXPECT_EQ(layout.shards, (fsdp ? parallel.fsdp : parallel.dp) * parallel.cp);
}

// Every element of a logical tensor lies on exactly one tp rank (on all of them when it is not
// split), and no two elements of a rank share a place in the bucket.
TEST_P(EveryLayout, PiecesPartitionEveryTensor) {
  const int64_t tp = spec().parallel.tp;
  const ParameterLayout layout = layout_of(spec());
  int order = 0;
  for (const Bucket& bucket : layout.buckets) {
    std::vector<std::set<int64_t>> taken(static_cast<size_t>(tp));
    for (const Weight& weight : bucket.weights) {
      for (const LogicalTensor& part : weight.parts) {
        std::map<std::pair<int64_t, int64_t>, int> times;
        for (int64_t rank = 0; rank < tp; ++rank) {
          const Piece piece = piece_of(part, rank);
          for (int64_t r = 0; r < piece.num_rows; ++r) {
            for (int64_t c = 0; c < piece.num_cols; ++c) {
              ++times[{piece.first_row + r, piece.first_col + c}];
              const int64_t at = piece.bucket_offset + r * piece.bucket_stride + c;
              ASSERT_TRUE(taken[static_cast<size_t>(rank)].insert(at).second) << part.name;
              ASSERT_GE(at, weight.offset) << part.name;
              ASSERT_LT(at, weight.offset + numel(weight.local_shape)) << part.name;
            }
          }
        }
        ASSERT_EQ(static_cast<int64_t>(times.size()), numel(part.shape)) << part.name;
        const int expected = part.split_dim < 0 ? static_cast<int>(tp) : 1;
        for (const auto& [element, count] : times) ASSERT_EQ(count, expected) << part.name;
        ++order;
      }
    }
  }
  EXPECT_EQ(order, 1 + 2 * 9 + 2);
}

// The global norm counts every element of every bucket on exactly one rank.
TEST_P(EveryLayout, EveryElementOfTheGradientHasOneOwner) {
  const StepGraph step = build_step(spec(), StepKind::kTraining);
  const std::vector<Program> programs = compile_ranks(step);
  const int64_t tp = step.mesh.size(Axis::kTp);
  std::map<int64_t, int64_t> owned;                             // by bucket
  std::map<int64_t, std::set<std::pair<int64_t, int>>> shards;  // tp rank, shard
  for (const Program& program : programs) {
    for (const Instruction& i : program.instructions) {
      if (i.op != OpKind::kSumSquares) continue;
      for (size_t b = 0; b < i.inputs.size(); ++b) {
        const int64_t bucket = i.args.buckets[b].index;
        owned[bucket] += numel(program.buffer(i.inputs[b]).shape);
        shards[bucket].insert({step.mesh.coord(program.rank, Axis::kTp),
                               step.mesh.position(program.rank, step.layout.shard_axes)});
      }
    }
  }
  for (size_t b = 0; b < step.layout.buckets.size(); ++b) {
    const Bucket& bucket = step.layout.buckets[b];
    const auto index = static_cast<int64_t>(b);
    const int64_t copies = bucket.split_on_tp ? tp : 1;
    EXPECT_EQ(owned[index], bucket.numel * copies) << bucket.name;
    EXPECT_EQ(static_cast<int64_t>(shards[index].size()), copies * step.layout.shards)
        << bucket.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, EveryLayout,
                         ::testing::Values("dp=1", "dp=3", "tp=4", "dp=2,tp=2,zero=1",
                                           "dp=3,zero=3", "fsdp=3", "dp=2,fsdp=2,tp=2",
                                           "dp=2,fsdp=2,zero=0",
                                           "fsdp=2,tp=4,sequence_parallel=true"));

}  // namespace
}  // namespace tessera
