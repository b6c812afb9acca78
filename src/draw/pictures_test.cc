// The pictures of the docs are what the tool draws. After a change that is meant:
//   TESSERA_UPDATE_GOLDEN=1 sim_test --gtest_filter='Pictures*'
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "cost/hardware/catalogue.h"
#include "draw/placements_svg.h"
#include "draw/plan_svg.h"
#include "draw/schedule_svg.h"
#include "draw/serve_plan_svg.h"
#include "plan/memory_limit.h"
#include "serve/plan/named_model.h"
#include "spec/run_file/pipeline.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void expect_picture(const std::string& name, const std::string& svg) {
  const std::string path = fmt::format("{}/docs/pictures/{}.svg", TESSERA_SOURCE_DIR, name);
  if (std::getenv("TESSERA_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << svg;
    return;
  }
  const std::string golden = read_file(path);
  ASSERT_FALSE(golden.empty()) << path << " is missing: run with TESSERA_UPDATE_GOLDEN=1";
  EXPECT_TRUE(golden == svg) << path << " is not what is drawn now";
}

TEST(PicturesTest, OfSchedulesAreWhatTheToolDraws) {
  const std::string page = read_file(fmt::format("{}/docs/pipeline.md", TESSERA_SOURCE_DIR));
  int shown = 0;
  for (const ScheduleKind& kind : schedule_kinds()) {
    const std::string name = fmt::format("schedule-{}", name_of(kind.kind));
    if (page.find(fmt::format("(pictures/{}.svg)", name)) == page.npos) continue;
    expect_picture(name, schedule_svg(simulate_schedule(make_schedule(kind.kind, 4, 0, 8))));
    ++shown;
  }
  EXPECT_GE(shown, 8);
}

// What the captions in the docs say:
//   tessera plan examples/EXAMPLE.toml --mesh MESH --set SET … --svg FILE (or --placements FILE)
struct PlanPicture {
  std::string name;
  std::string example;
  std::string mesh;
  std::vector<std::string> sets;
  bool placements = false;
};

std::vector<PlanPicture> plan_pictures() {
  return {
      {"plan-demo", "demo", "dp=2,tp=2", {}},
      {"plan-pipeline", "pipeline", "pp=4", {}},
      {"plan-pipedream", "pipeline", "pp=4", {"parallel.schedule=pipedream", "optimizer.clip=0"}},
      {"plan-recompute-none", "pipeline", "pp=4", {"parallel.schedule=gpipe"}},
      {"plan-recompute-full",
       "pipeline",
       "pp=4",
       {"parallel.schedule=gpipe", "parallel.recompute=full"}},
      {"placements-zero1", "demo", "dp=4,zero=1", {"train.micro_batch=2"}, true},
      {"placements-hsdp", "demo", "dp=2,fsdp=2,zero=3", {"train.micro_batch=2"}, true},
      {"placements-demo", "demo", "dp=2,tp=2", {}, true},
      {"placements-tp", "demo", "tp=4,sequence_parallel=false", {"model.kv_heads=2"}, true},
      {"placements-sp", "demo", "tp=4,sequence_parallel=true", {}, true},
      {"placements-cp", "demo", "cp=4,zero=0", {"train.micro_batch=1"}, true},
      {"placements-ulysses",
       "demo",
       "cp=4,zero=0,cp_kind=ulysses",
       {"train.micro_batch=1", "model.kv_heads=8"},
       true},
      {"placements-experts", "experts", "fsdp=2,tp=2,ep=2", {}, true},
      {"placements-pipeline", "pipeline", "pp=4,dp=2,zero=1", {"parallel.schedule=zb-v"}, true},
  };
}

TEST(PicturesTest, OfPlansAreWhatTheToolDraws) {
  for (const PlanPicture& picture : plan_pictures()) {
    const std::string file =
        fmt::format("{}/examples/{}.toml", TESSERA_SOURCE_DIR, picture.example);
    RunSpec spec = parse_run_file(read_file(file), file, picture.sets, {});
    spec.parallel = parse_mesh(picture.mesh, spec.parallel);
    spec.train.threads = 1;
    resolve(spec);
    const CompiledRun run = compile_run(spec);
    expect_picture(picture.name, picture.placements ? placements_svg(run.step, run.programs)
                                                    : plan_svg(plan_of(run)));
  }
}

// tessera plan --serve MODEL --cluster CLUSTER --mesh tp=TP,pp=PP --svg FILE
TEST(PicturesTest, OfServingAreWhatTheToolDraws) {
  const Cluster cluster = find_cluster("h100-8");
  serve::ServeOptions options;
  options.tp = 4;
  options.pp = 2;
  options.dtype = DType::kBF16;
  options.threads = 1;
  options.max_context = 8192;
  options.rank_memory_bytes = usable_bytes(cluster);
  const serve::NamedModel model = serve::find_named_model("llama-3-70b", nullptr);
  serve::ServeReport report;
  report.estimate = serve::estimate_serving(model.spec, options);
  report.cluster = cluster;
  expect_picture("serve-llama-3-70b", serve_plan_svg(report));
}

}  // namespace
}  // namespace tessera
