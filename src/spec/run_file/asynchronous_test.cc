#include "spec/run_file/asynchronous.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

RunSpec asynchronous(const std::string& schedule, int64_t stages, int64_t micro_batches) {
  RunSpec spec;
  spec.model.layers = 4;
  spec.model.hidden = 16;
  spec.model.ffn = 24;
  spec.model.heads = 4;
  spec.model.vocab = 40;
  spec.optimizer.clip = 0;
  spec.parallel.schedule = schedule;
  spec.parallel.pp = stages;
  spec.train.global_batch = micro_batches;
  return spec;
}

std::string failure(RunSpec spec) {
  return testing::message_of([&] { resolve(spec); });
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(AsynchronousTest, AnUpdateHasOneMicroBatchOrAGroup) {
  const auto group = [](const std::string& schedule, int64_t stages, int64_t micro_batches,
                        int64_t wanted = 0) {
    RunSpec spec = asynchronous(schedule, stages, micro_batches);
    spec.parallel.schedule_group = wanted;
    resolve(spec);
    return micro_batches_per_update(spec);
  };
  EXPECT_EQ(group("1f1b", 2, 6), 6);
  EXPECT_EQ(group("pipedream", 2, 6), 1);
  EXPECT_EQ(group("pipedream-2bw", 2, 6), 2);
  EXPECT_EQ(group("pipedream-2bw", 2, 6, 3), 3);
  EXPECT_EQ(group("pipedream-2bw", 4, 6), 6);
  EXPECT_EQ(group("pipedream-2bw", 4, 10), 5);
  EXPECT_EQ(group("pipedream-2bw", 4, 7), 7);
  EXPECT_EQ(group("pipedream-2bw", 4, 2), 2);  // fewer than stages: one group, as if synchronous
}

TEST(AsynchronousTest, RefusesWithTheReasonAndTheNearestChoice) {
  RunSpec clipped = asynchronous("pipedream", 2, 4);
  clipped.optimizer.clip = 1;
  expect_parts(failure(clipped), {"optimizer.clip = 1", "use clip = 0", "1f1b"});
  RunSpec tied = asynchronous("pipedream-2bw", 2, 4);
  tied.model.tied = true;
  expect_parts(failure(tied), {"model.tied", "different versions", "use tied = false", "1f1b"});
  tied.parallel.pp = 1;
  EXPECT_EQ(failure(tied), "no error");
  RunSpec half = asynchronous("pipedream", 2, 4);
  half.train.dtype = DType::kF16;
  expect_parts(failure(half), {"f16", "bf16", "1f1b"});
  RunSpec keeping = asynchronous("pipedream", 2, 4);
  keeping.parallel.release_after_forward = false;
  EXPECT_EQ(failure(keeping), "no error");
  keeping.parallel.fsdp = 2;
  keeping.parallel.zero = 3;
  expect_parts(failure(keeping),
               {"release_after_forward = false", "different versions", "zero = 2"});
  RunSpec group = asynchronous("pipedream-2bw", 3, 12);
  group.parallel.schedule_group = 5;
  expect_parts(failure(group),
               {"schedule_group = 5", "12 micro-batches", "use schedule_group = 4 or 6"});
  group.parallel.schedule_group = 2;
  expect_parts(failure(group), {"at least pp = 3", "use schedule_group = 3"});
}

TEST(AsynchronousTest, SynchronousSchedulesMayClip) {
  RunSpec spec = asynchronous("1f1b", 2, 4);
  spec.optimizer.clip = 1;
  spec.model.tied = true;
  EXPECT_EQ(failure(spec), "no error");
}

}  // namespace
}  // namespace tessera
