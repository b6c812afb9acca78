#include "spec/run_file/lanes.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "base/error.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

RunSpec lanes_spec(int64_t lanes, int64_t dp, int64_t global_batch) {
  RunSpec spec;
  spec.model.layers = 2;
  spec.model.hidden = 16;
  spec.model.ffn = 24;
  spec.model.heads = 4;
  spec.model.vocab = 40;
  spec.parallel.dp = dp;
  spec.train.lanes = lanes;
  spec.train.global_batch = global_batch;
  return spec;
}

std::string refusal(const std::function<void(RunSpec&)>& change) {
  RunSpec spec = lanes_spec(4, 2, 8);
  change(spec);
  try {
    resolve(spec);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

void expect_refusal(const std::string& text, const std::function<void(RunSpec&)>& change) {
  const std::string refused = refusal(change);
  EXPECT_NE(refused.find(text), std::string::npos) << refused;
}

TEST(LanesTest, ThreeReplicasOfFourLanes) {
  RunSpec spec = lanes_spec(4, 3, 8);
  resolve(spec);
  EXPECT_EQ(accumulation(spec), 4);
  const ReplicaBatch first = replica_batch(spec, 0);
  EXPECT_EQ(first.padding, 0);
  EXPECT_EQ(first.sums(), 2);
  EXPECT_EQ(first.number_of(3), 3);
  EXPECT_EQ(first.lane_of(1), 0);
  EXPECT_EQ(first.lane_of(2), 1);
  EXPECT_TRUE(first.begins_lane(2));
  EXPECT_TRUE(first.ends_lane(1));
  const ReplicaBatch last = replica_batch(spec, 2);
  EXPECT_EQ(last.padding, 2);
  EXPECT_EQ(last.sums(), 1);
  EXPECT_EQ(last.lanes.first, 3);
  EXPECT_EQ(last.number_of(2), 6);
  EXPECT_TRUE(last.begins_lane(2));
  EXPECT_FALSE(last.ends_lane(1));
}

TEST(LanesTest, EveryMicroBatchIsOneReplicas) {
  for (int64_t replicas = 1; replicas <= 8; ++replicas) {
    RunSpec spec = lanes_spec(8, replicas, 24);
    resolve(spec);
    std::multiset<int64_t> taken;
    for (int64_t replica = 0; replica < replicas; ++replica) {
      const ReplicaBatch batch = replica_batch(spec, replica);
      for (int64_t m = batch.padding; m < batch.micro_batches; ++m) {
        taken.insert(batch.number_of(m));
        EXPECT_EQ(batch.number_of(m) / 3, batch.lanes.first + batch.lane_of(m));
      }
    }
    EXPECT_EQ(taken.size(), 24U);
    EXPECT_EQ(std::set<int64_t>(taken.begin(), taken.end()).size(), 24U);
  }
}

TEST(LanesTest, WithoutLanesMicroBatchesAreDealtInTurn) {
  RunSpec spec = lanes_spec(0, 2, 8);
  resolve(spec);
  const ReplicaBatch batch = replica_batch(spec, 1);
  EXPECT_FALSE(batch.has_lanes());
  EXPECT_EQ(batch.number_of(0), 1);
  EXPECT_EQ(batch.number_of(3), 7);
  EXPECT_EQ(batch.sums(), 1);
}

// A lane needs as many sums as there are complete ones before it.
TEST(LanesTest, SumsAreThoseOfABinaryCounter) {
  for (int64_t lanes = 1; lanes <= 64; lanes *= 2) {
    ReplicaBatch batch;
    batch.per_lane = 1;
    batch.lanes.count = lanes;
    int most = 0;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      most = std::max(most, batch.sum_of(lane) + 1);
    }
    EXPECT_EQ(batch.sums(), most);
  }
}

TEST(LanesTest, TheBatchIsThatOfAllLanes) {
  RunSpec spec = lanes_spec(4, 3, 0);
  resolve(spec);
  EXPECT_EQ(spec.train.global_batch, 4);
  expect_refusal("micro_batch * lanes = 1 * 4 = 4; use global_batch = 4 or 8",
                 [](RunSpec& s) { s.train.global_batch = 6; });
}

TEST(LanesTest, GroupsDoTheSame) {
  RunSpec spec = lanes_spec(4, 6, 8);
  spec.train.redundancy = 2;
  resolve(spec);
  EXPECT_EQ(distinct_replicas(spec), 3);
  for (int64_t replica = 0; replica < 3; ++replica) {
    EXPECT_EQ(replica_batch(spec, replica).first, replica_batch(spec, replica + 3).first);
    EXPECT_EQ(replica_batch(spec, replica).padding, replica_batch(spec, replica + 3).padding);
  }
  expect_refusal("use dp = 2 or 4", [](RunSpec& s) {
    s.parallel.dp = 3;
    s.train.redundancy = 2;
  });
  expect_refusal("set lanes to a power of two", [](RunSpec& s) {
    s.train.lanes = 0;
    s.train.redundancy = 2;
  });
}

TEST(LanesTest, RefusesByName) {
  EXPECT_EQ(refusal([](RunSpec&) {}), "");
  expect_refusal("is no power of two; use lanes = 2 or 4", [](RunSpec& s) { s.train.lanes = 3; });
  expect_refusal("use lanes = 8, or fewer replicas", [](RunSpec& s) { s.parallel.dp = 5; });
  expect_refusal("fsdp = 3 is no power of two", [](RunSpec& s) {
    s.train.lanes = 8;
    s.parallel.fsdp = 3;
  });
  expect_refusal("use cp = 1", [](RunSpec& s) { s.parallel.cp = 2; });
  expect_refusal("without experts", [](RunSpec& s) {
    s.model.family = ModelFamily::kMixtral;
    s.model.experts = 4;
  });
  expect_refusal("use device = \"cpu\"", [](RunSpec& s) { s.train.device = TrainDevice::kCuda; });
  expect_refusal("use grad_reduce = \"step\"",
                 [](RunSpec& s) { s.parallel.grad_reduce = GradReduce::kMicroBatch; });
  expect_refusal("before its lanes are complete", [](RunSpec& s) {
    s.optimizer.clip = 0;
    s.parallel.schedule = PipelineKind::kPipedream;
  });
}

}  // namespace
}  // namespace tessera
