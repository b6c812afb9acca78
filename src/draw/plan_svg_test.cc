#include "draw/plan_svg.h"

#include <gtest/gtest.h>

#include "base/testing/count_parts.h"
#include "base/text/ranks_text.h"
#include "base/text/text.h"
#include "compile/program/memory_parts.h"
#include "compile/testing/test_spec.h"
#include "cost/hardware/catalogue.h"
#include "draw/category_color.h"
#include "draw/pass_color.h"
#include "draw/placements_svg.h"
#include "draw/run_title.h"

namespace tessera {
namespace {

using testing::count_parts;

CompiledRun compile(const std::string& mesh) {
  RunSpec spec = testing::small_spec(mesh);
  spec.model.layers = 16;
  spec.train.global_batch = 32;  // stages hold different numbers of micro-batches
  return compile_run(testing::resolved(std::move(spec)));
}

std::string picture(const std::string& mesh) { return plan_svg(plan_of(compile(mesh))); }

TEST(PlanSvgTest, ShowsEveryCategoryAndCollectiveInBytes) {
  const CompiledRun run = compile("dp=2,tp=2,zero=1");
  const std::string svg = plan_svg(plan_of(run));
  const Program& program = run.programs.front();
  for (const ArenaKind arena : kTrainingArenas) {
    EXPECT_NE(svg.find(fmt::format(">{}<", name_of(arena))), std::string::npos);
    const int64_t bytes = memory_parts(program)[static_cast<size_t>(arena)];
    EXPECT_NE(svg.find(fmt::format(">{}<", with_thousands(bytes))), std::string::npos) << svg;
  }
  EXPECT_NE(svg.find(fmt::format(">{}<", with_thousands(program.total_bytes()))),
            std::string::npos);
  for (const Traffic& t : traffic_of(program)) {
    EXPECT_NE(svg.find(fmt::format(">{} {}<", t.group, t.op)), std::string::npos);
    EXPECT_NE(svg.find(fmt::format(">{}<", with_thousands(t.bytes_sent))), std::string::npos);
    EXPECT_NE(svg.find(fmt::format(">{} x<", with_thousands(t.calls))), std::string::npos);
  }
}

TEST(PlanSvgTest, EqualRanksShareAColumn) {
  const std::string svg = picture("dp=4");
  EXPECT_NE(svg.find(">ranks 0-3<"), std::string::npos) << svg;
  const std::string stages = picture("pp=2,dp=2");
  EXPECT_NE(stages.find(">ranks 0-1<"), std::string::npos) << stages;
  EXPECT_NE(stages.find(">pp1<"), std::string::npos);
}

TEST(PlanSvgTest, OfManyKindsShowsTheLargestAndSaysSo) {
  const std::string svg = picture("pp=16");
  EXPECT_EQ(count_parts(svg, ">rank "), 8U);
  EXPECT_NE(svg.find("8 more kinds of ranks"), std::string::npos) << svg;
}

TEST(PlanSvgTest, OneRankSendsNothing) {
  EXPECT_NE(picture("dp=1").find("one rank: nothing is sent"), std::string::npos);
}

TEST(PlanSvgTest, ShowsTheLimitAndTheStepWhereAClusterPricesIt) {
  RunSpec spec = testing::small_spec("pp=16");
  spec.model.layers = 16;
  spec.train.global_batch = 32;
  PlanRequest request{.spec = testing::resolved(std::move(spec)),
                      .cluster = find_cluster("h100-16")};
  const Plan plan = make_plan(request);
  const std::string svg = plan_svg(plan);
  EXPECT_EQ(count_parts(svg, ">pipeline rank "), 16U);
  EXPECT_NE(svg.find(fmt::format(">limit {}<", human_bytes(plan.limit_bytes))), std::string::npos);
  for (const char* part : {">forward ", ">backward ", ">bubble ", ">optimizer "}) {
    EXPECT_EQ(count_parts(svg, part), 1U) << part;
  }
  request.cluster.reset();
  EXPECT_EQ(count_parts(plan_svg(make_plan(request)), ">forward "), 0U);
}

std::string on_cluster(const std::string& mesh, const std::string& cluster, double memory_gib) {
  RunSpec spec = testing::small_spec(mesh);
  spec.cluster.memory_gib = memory_gib;
  return plan_svg(
      make_plan({.spec = testing::resolved(std::move(spec)), .cluster = find_cluster(cluster)}));
}

TEST(PlanSvgTest, SaysWhetherItFitsAndOfWhatItIs) {
  const std::string roomy = on_cluster("dp=2,tp=2,zero=1", "h100-4", 0);
  EXPECT_NE(roomy.find(">fits, 99 % free: "), std::string::npos) << roomy;
  for (const char* part : {"parameters, f32, dp=2 tp=2 zero=1", " sequences of ", " tokens in ",
                           "micro-batch", "on 4 x h100<", ">waits for dp ", " over "}) {
    EXPECT_NE(roomy.find(part), std::string::npos) << part << "\n" << roomy;
  }
  const std::string narrow = on_cluster("dp=2,tp=2,zero=1", "h100-4", 1e-5);
  EXPECT_NE(narrow.find(">does not fit: "), std::string::npos);
  EXPECT_NE(narrow.find(" times too large, "), std::string::npos);
}

// What a step is made of has no colour of bytes that no pass works for.
TEST(PlanSvgTest, OneColourHasOneMeaning) {
  const std::string svg = on_cluster("pp=2,dp=2", "h100-4", 0);
  const size_t step = svg.find(">a step of ");
  ASSERT_NE(step, std::string::npos);
  for (const ArenaKind arena : kTrainingArenas) {
    if (arena != ArenaKind::kActivations && arena != ArenaKind::kWorkspace) continue;
    EXPECT_EQ(svg.find(hex(color_of(arena)), step), std::string::npos) << name_of(arena);
  }
}

// In timelines too: a pass has the colour of the bytes that it works for.
TEST(PassColorTest, OneColourHasOneMeaningAcrossPictures) {
  EXPECT_EQ(hex(color_of(ArenaKind::kParameters)), hex(kForwardColor));
  EXPECT_EQ(hex(color_of(ArenaKind::kGradients)), hex(kBackwardColor));
  for (const ArenaKind arena : kTrainingArenas) {
    EXPECT_NE(hex(color_of(arena)), hex(kWeightGradColor)) << name_of(arena);
  }
  EXPECT_EQ(hex(color_of(ArenaKind::kOptimizer)), hex(kUpdateColor));
  EXPECT_EQ(hex(color_of(ArenaKind::kCommunication)), hex(kExposedColor));
}

// A class names its first rank alone, whose place on other axes says nothing of the others.
TEST(PlanSvgTest, KindsOfALargeMeshHaveOnlyTheirPlaceInThePipeline) {
  const std::string svg = on_cluster("pp=2,dp=128", "h100-256", 0);
  EXPECT_NE(svg.find(" ranks from 0<"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">pp1<"), std::string::npos) << svg;
  EXPECT_EQ(svg.find(" dp0<"), std::string::npos);
  EXPECT_EQ(svg.find(">dp0<"), std::string::npos);
}

TEST(PlanSvgTest, IsReadOutAndSuitsADarkScreen) {
  const std::string svg = picture("dp=2");
  for (const char* part : {"role=\"img\"", "<title>", "<desc>memory of a rank",
                           "@media screen and (prefers-color-scheme: dark)"}) {
    EXPECT_EQ(count_parts(svg, part), 1U) << part;
  }
}

TEST(PlacementsSvgTest, SaysWhatTheLettersMean) {
  const CompiledRun run = compile("dp=2,tp=2");
  const std::string svg = placements_svg(run.step, run.programs);
  for (const char* part : {">S(0): split by rows<", ">R: whole on every rank<",
                           ">P: partial sums, striped, still to be added<", ">optimizer<"}) {
    EXPECT_EQ(count_parts(svg, part), 1U) << part << "\n" << svg;
  }
}

TEST(PlacementsSvgTest, HasAColumnPerRankUnderItsCoordinates) {
  const CompiledRun run = compile("dp=2,tp=2");
  const std::string svg = placements_svg(run.step, run.programs);
  EXPECT_EQ(count_parts(svg, ">rank "), 4U);
  EXPECT_EQ(count_parts(svg, ">dp0<"), 1U);
  EXPECT_EQ(count_parts(svg, ">tp0<"), 2U);
  EXPECT_EQ(count_parts(svg, "<pattern"), 1U) << "a partial sum is striped";
}

TEST(PlacementsSvgTest, DrawsSixteenRanksOfMoreAndSaysSo) {
  const CompiledRun run = compile("dp=32");
  const std::string svg = placements_svg(run.step, run.programs);
  EXPECT_EQ(count_parts(svg, ">rank "), 16U);
  EXPECT_NE(svg.find("the first 16 of 32 ranks"), std::string::npos);
}

TEST(RunTitleTest, RanksAreFoldedToRanges) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({0, 1, 2, 8, 9, 12}), "ranks 0-2, 8-9, 12");
  EXPECT_EQ(ranks_text({0, 2, 4, 6}), "4 ranks from 0");
}

TEST(RunTitleTest, NamesWhatDiffersFromOneRank) {
  EXPECT_TRUE(run_title(compile("dp=1").step).ends_with(", f32, one rank"));
  EXPECT_TRUE(run_title(compile("tp=2,sequence_parallel=true").step)
                  .ends_with(" parameters, f32, tp=2 sequence_parallel"));
  EXPECT_TRUE(run_title(compile("pp=2,dp=2,zero=1").step).ends_with(" pp=2 dp=2 zero=1 1f1b"));
}

TEST(RunTitleTest, PicturesNameTheModelAndTheBatch) {
  RunSpec spec = testing::resolved(testing::small_spec("pp=2,dp=2"));
  spec.model.preset = "llama-3-8b";
  spec.train.global_batch = 8 * spec.train.micro_batch;
  spec.train.seq_len = 4096;
  EXPECT_EQ(
      full_run_title(spec, 1000, "1f1b"),
      fmt::format("llama-3-8b, 1,000 parameters, f32, pp=2 dp=2 zero={} 1f1b, {} sequences of "
                  "4,096 tokens in 4 micro-batches",
                  spec.parallel.zero, 8 * spec.train.micro_batch));
}

TEST(RunTitleTest, EqualChoicesOfStagesAreCounted) {
  RunSpec spec = testing::small_spec("pp=4");
  const auto title = [&](const char* recompute) {
    spec.parallel.recompute = recompute;
    return run_title(spec, 1000, "1f1b");
  };
  EXPECT_EQ(title("full/full/full/full"), "1,000 parameters, f32, pp=4 1f1b recompute=full");
  EXPECT_EQ(title("full/full/full/none"),
            "1,000 parameters, f32, pp=4 1f1b recompute=3 x full/none");
  EXPECT_EQ(title("none/none/none/none"), "1,000 parameters, f32, pp=4 1f1b");
}

}  // namespace
}  // namespace tessera
