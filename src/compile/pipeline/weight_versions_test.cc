#include "compile/pipeline/weight_versions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "compile/step.h"
#include "compile/testing/test_spec.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

std::vector<StageVersions> pipedream(int stages, int micro_batches) {
  return plan_versions(make_schedule("pipedream", stages, 1, micro_batches), 1,
                       VersionRule::kNewest);
}

std::vector<StageVersions> two_buffers(int stages, int micro_batches, int group) {
  return plan_versions(make_schedule("pipedream-2bw", stages, 1, micro_batches), group,
                       VersionRule::kOneBehind);
}

// Walks the stage in order: whoever reads must find its version where slot_of says.
void expect_every_read_to_find_its_version(const PipelineSchedule& schedule, int stage,
                                           const StageVersions& versions) {
  std::vector<int> content(static_cast<size_t>(versions.slots), -1);
  content[0] = 0;
  const auto slot = [&](int version) -> int& {
    return content.at(static_cast<size_t>(versions.slot_of[static_cast<size_t>(version)]));
  };
  std::vector<int> left(static_cast<size_t>(versions.updates) + 1, 0);
  for (const int update : versions.update_of) ++left[static_cast<size_t>(update)];
  for (const StageAction& action : schedule.actions[static_cast<size_t>(stage)]) {
    const auto m = static_cast<size_t>(action.micro_batch);
    const int version = versions.version_of[m];
    ASSERT_EQ(slot(version), version) << cell_text(action);
    const int update = versions.update_of[m];
    if (action.pass == StagePass::kForward || --left[static_cast<size_t>(update)] > 0) continue;
    ASSERT_EQ(slot(update - 1), update - 1);
    slot(update) = update;
  }
  EXPECT_EQ(content[0], versions.updates);
}

TEST(WeightVersionsTest, PipeDreamsForwardsReadWhatTheFormulaSays) {
  for (int p = 1; p <= 6; ++p) {
    for (int micro_batches = 1; micro_batches <= 14; ++micro_batches) {
      const std::vector<StageVersions> stages = pipedream(p, micro_batches);
      for (int s = 0; s < p; ++s) {
        SCOPED_TRACE(fmt::format("stage {} of {}, {} micro-batches", s, p, micro_batches));
        const StageVersions& versions = stages[static_cast<size_t>(s)];
        EXPECT_EQ(versions.updates, micro_batches);
        for (int m = 0; m < micro_batches; ++m) {
          EXPECT_EQ(versions.version_of[static_cast<size_t>(m)], std::max(0, m - (p - 1 - s)));
        }
        EXPECT_LE(versions.slots, p - s);
        if (micro_batches >= 2 * (p - s)) {
          EXPECT_EQ(versions.slots, p - s);
        }
        expect_every_read_to_find_its_version(make_schedule("pipedream", p, 1, micro_batches), s,
                                              versions);
      }
    }
  }
}

TEST(WeightVersionsTest, TwoBuffersAreEnoughForGroupsAsLongAsThePipeline) {
  for (int p = 1; p <= 5; ++p) {
    for (int group = p; group <= p + 2; ++group) {
      for (int groups = 1; groups <= 4; ++groups) {
        const std::vector<StageVersions> stages = two_buffers(p, group * groups, group);
        for (int s = 0; s < p; ++s) {
          SCOPED_TRACE(fmt::format("stage {} of {}, {} groups of {}", s, p, groups, group));
          const StageVersions& versions = stages[static_cast<size_t>(s)];
          EXPECT_EQ(versions.slots, groups == 1 ? 1 : 2);
          for (int m = 0; m < group * groups; ++m) {
            EXPECT_EQ(versions.version_of[static_cast<size_t>(m)], std::max(0, m / group - 1));
          }
          expect_every_read_to_find_its_version(
              make_schedule("pipedream-2bw", p, 1, group * groups), s, versions);
        }
      }
    }
  }
}

TEST(WeightVersionsTest, SynchronousSchedulesHaveOneVersion) {
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-v"}) {
    const PipelineSchedule schedule = make_schedule(name, 2, 0, 4);
    for (const StageVersions& versions : plan_versions(schedule, 4, VersionRule::kNewest)) {
      EXPECT_EQ(versions.updates, 1);
      EXPECT_EQ(versions.slots, 1);
      EXPECT_EQ(versions.version_of, std::vector<int>(4, 0));
    }
  }
}

// ---- the check on Programs ----

StepGraph asynchronous_step(const std::string& schedule, int64_t stages, int64_t micro_batches,
                            DType dtype = DType::kF64) {
  RunSpec spec = testing::small_spec("dp=1");
  spec.model.layers = stages;
  spec.model.tied = false;
  spec.optimizer.clip = 0;
  spec.parallel.pp = stages;
  spec.parallel.schedule = PipelineChoice::parse(schedule);
  spec.train.dtype = dtype;
  spec.train.micro_batch = 1;
  spec.train.global_batch = micro_batches;
  resolve(spec);
  return build_step(spec, StepKind::kTraining);
}

std::string refusal(const StepGraph& step, int rank) {
  try {
    lower(step, rank);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

TEST(WeightVersionsTest, ParametersGrowByTheVersions) {
  const StepGraph step = asynchronous_step("pipedream", 3, 6);
  const StepGraph synchronous = asynchronous_step("pipedream-2bw", 3, 3);  // one group
  for (int rank = 0; rank < 3; ++rank) {
    const auto bytes = [&](const StepGraph& of) {
      return lower(of, rank).arena_bytes[static_cast<size_t>(ArenaKind::kParameters)];
    };
    EXPECT_EQ(lower(step, rank).weight_versions, 3 - rank);
    EXPECT_EQ(lower(synchronous, rank).weight_versions, 1);
    EXPECT_EQ(bytes(step), (3 - rank) * bytes(synchronous));
  }
}

// A slot less than needed: a backward would meet another version than its forward.
TEST(WeightVersionsTest, OneSlotTooFewIsACompileError) {
  struct Case {
    const char* schedule;
    int stages, micro_batches;
    DType dtype;
  };
  for (const Case& c :
       {Case{"pipedream", 3, 6, DType::kF64}, Case{"pipedream", 2, 3, DType::kF64},
        Case{"pipedream", 3, 7, DType::kBF16}, Case{"pipedream-2bw", 2, 6, DType::kF64},
        Case{"pipedream-2bw", 3, 9, DType::kBF16}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", c.schedule, c.stages, c.micro_batches));
    StepGraph step = asynchronous_step(c.schedule, c.stages, c.micro_batches, c.dtype);
    EXPECT_EQ(refusal(step, 0), "");
    StageVersions& versions = step.stages.versions.front();
    ASSERT_GT(versions.slots, 1);
    --versions.slots;
    for (int& slot : versions.slot_of) slot %= versions.slots;
    const std::string text = refusal(step, 0);
    EXPECT_NE(text.find("reads version"), std::string::npos) << text;
    EXPECT_NE(text.find("but its forward reads version"), std::string::npos) << text;
  }
}

// ZeRO-3 that keeps gathered weights over micro-batches, past resolve(), which refuses it.
TEST(WeightVersionsTest, GatheredWeightsOfAnotherVersionAreACompileError) {
  StepGraph step = asynchronous_step("pipedream", 2, 4);
  RunSpec spec = step.spec;
  spec.parallel.fsdp = 2;
  spec.parallel.zero = 3;
  spec.train.global_batch = 8;
  resolve(spec);
  EXPECT_EQ(refusal(build_step(spec, StepKind::kTraining), 0), "");
  spec.parallel.release_after_forward = false;
  const std::string text = refusal(build_step(spec, StepKind::kTraining), 0);
  EXPECT_NE(text.find("but its forward reads version"), std::string::npos) << text;
}

TEST(WeightVersionsTest, TheNewestVersionMustEndUpWhereTheStepBegan) {
  StepGraph step = asynchronous_step("pipedream", 2, 4);
  step.stages.versions.front().slot_of.back() = 1;
  const std::string text = refusal(step, 0);
  EXPECT_NE(text.find("not the newest (4)"), std::string::npos) << text;
}

}  // namespace
}  // namespace tessera
