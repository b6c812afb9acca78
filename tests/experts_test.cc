// Mixtures of experts: parity with PyTorch, planted faults, extremes of the router, load figures.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "spec/run_file/run_file.h"
#include "support/command.h"
#include "support/record.h"
#include "support/tiny.h"
#include "train/verify/verify.h"

namespace tessera {
namespace {

using testing::on_one_rank;
using testing::parse_case;
using testing::random_samples;
using testing::TestFolder;
using testing::TinyCase;

const std::string kMixtral = "family=mixtral experts=4 router_aux_coef=0.1 ";

// ---- parity ----

void expect_parity(const std::string& folder, double tolerance) {
  for (const char* mesh :
       {"dp=1", "dp=2,zero=1", "dp=3,zero=3", "tp=2,ep=2", "tp=4,ep=4,sequence_parallel=true",
        "fsdp=2,tp=2,ep=4,zero=3", "dp=2,fsdp=2,ep=2,zero=2", "cp=2,tp=2,ep=4"}) {
    SCOPED_TRACE(folder + " on " + mesh);
    GoldenOptions options;
    options.hf = folder;
    options.golden = folder + "/golden.safetensors";
    options.parallel = parse_mesh(mesh, {});
    options.tolerance = tolerance;
    const VerifyReport report = verify_golden(options);
    EXPECT_TRUE(report.equal) << report.text;
  }
}

TEST(ExpertsParityTest, MatchesFloat64ReferenceOnEveryMesh) {
  expect_parity(std::string(TESSERA_SOURCE_DIR) + "/tests/data/hf/mixtral", 1e-9);
}

// Transformers computes norms, softmax and router in float32 even in a float64 model.
TEST(ExpertsParityTest, MatchesTransformersOnEveryMesh) {
  const std::string folder = std::string(TESSERA_SHARED_DATA) + "/hf-tiny/mixtral";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  expect_parity(folder, 1e-5);
}

// ---- planted faults ----

struct Found {
  std::string kind;
  std::string tensor;
};

std::optional<Found> first_difference(const std::string& line, const std::string& fault) {
  const TinyCase c = parse_case(kMixtral + line);
  const SampleSource samples = random_samples(c.spec, "some");
  const std::vector<StepRecord> oracle = testing::record(on_one_rank(c.spec), samples);
  ShortRun run = testing::short_run(c.spec, samples);
  if (!fault.empty()) run.inject = parse_injection(fault);
  const std::vector<StepRecord> mine = record_run(run);
  for (size_t s = 0; s < mine.size(); ++s) {
    for (const Difference& d : differences(mine[s].gradients, oracle[s].gradients)) {
      if (!(d.relative <= 1e-9)) return Found{"gradient", d.name};
    }
    for (const Difference& d : differences(mine[s].weights, oracle[s].weights)) {
      if (!(d.relative <= 1e-9)) return Found{"weight", d.name};
    }
  }
  return std::nullopt;
}

struct Fault {
  const char* name;
  const char* mesh;
  const char* fault;
  const char* tensor;  // the first that differs starts so
};

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kFirstExpert = "model.layers.0.block_sparse_moe.experts.";

const Fault kFaults[] = {
    {"GatesDoNotAddUpToOne", "dp=2", "scale-value:tensor=layers.1.gates,axis=dp", kEmbedding},
    {"CombineTakesTheWrongRow", "tp=2 ep=2", "roll-value:tensor=layers.1.slots", kEmbedding},
    {"ExpertGradientIsNotSummed", "dp=2", "drop-cast:tensor=d(layers.0.experts)", kFirstExpert},
    {"ExpertGradientIsNotSummedBesideEp", "dp=2 fsdp=2 ep=2 zero=0",
     "drop-cast:tensor=d(layers.0.experts)", kFirstExpert},
    {"BalanceLossTimesDp", "dp=2", "scale-value:tensor=d(router.totals.cp),axis=dp", kEmbedding},
    {"StatisticsAreNotSummedOverTp", "tp=2 sequence_parallel=true", "drop-cast:tensor=router.stats",
     kEmbedding},
    {"RowsStayWhereTheyAre", "fsdp=2 ep=2 zero=0", "drop-cast:tensor=layers.0.rows.here",
     kEmbedding},
};

class ExpertFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(ExpertFaultTest, PassesWithoutTheFaultAndFailsWithIt) {
  const Fault& fault = GetParam();
  const std::optional<Found> healthy = first_difference(fault.mesh, "");
  EXPECT_FALSE(healthy.has_value()) << healthy->kind << " of " << healthy->tensor;
  const std::optional<Found> found = first_difference(fault.mesh, fault.fault);
  ASSERT_TRUE(found.has_value()) << "not found";
  EXPECT_EQ(found->kind, "gradient");
  EXPECT_EQ(found->tensor.rfind(fault.tensor, 0), 0U) << found->tensor;
}

INSTANTIATE_TEST_SUITE_P(Faults, ExpertFaultTest, ::testing::ValuesIn(kFaults),
                         [](const auto& fault) { return std::string(fault.param.name); });

// ---- extremes of the router ----

// A router without weights finds all experts equal, and takes the first ones.
ShortRun with_blind_router(const RunSpec& spec, const SampleSource& samples) {
  ShortRun run = testing::short_run(spec, samples);
  run.steps = 1;
  run.weights = [random = initial_weights(spec.model, spec.train.seed)](
                    const LogicalTensor& tensor, int64_t first, std::span<double> out) {
    random(tensor, first, out);
    if (tensor.name.find("block_sparse_moe.gate") != std::string::npos) {
      std::fill(out.begin(), out.end(), 0.0);
    }
  };
  return run;
}

TEST(ExpertsTest, AllTokensMayGoToTheExpertsOfOneRank) {
  for (const char* mesh : {"fsdp=2 ep=2", "tp=4 ep=4", "dp=2 fsdp=2 tp=2 ep=4 zero=3"}) {
    SCOPED_TRACE(mesh);
    const TinyCase c = parse_case(kMixtral + "experts_per_token=1 " + mesh);
    const SampleSource samples = random_samples(c.spec, "some");
    const std::vector<StepRecord> oracle =
        record_run(with_blind_router(on_one_rank(c.spec), samples));
    testing::expect_equal(record_run(with_blind_router(c.spec, samples)), oracle, 1e-12);
    for (const LogicalValues& gradient : oracle[0].gradients) {
      const bool unused = gradient.tensor.name.find("experts.3.") != std::string::npos;
      const bool zero = std::all_of(gradient.values.begin(), gradient.values.end(),
                                    [](double v) { return v == 0; });
      if (unused) {
        EXPECT_TRUE(zero) << gradient.tensor.name;
      }
    }
  }
}

TEST(ExpertsTest, AnOverflowNamesLayerRankRowsAndFix) {
  const TinyCase c = parse_case(kMixtral + "fsdp=2 ep=2 zero=0 moe_capacity=1");
  const SampleSource samples = random_samples(c.spec, "none");
  try {
    record_run(with_blind_router(c.spec, samples));
    FAIL() << "twice the even spread fits into a capacity of 1";
  } catch (const Error& e) {
    const std::string text = e.what();
    for (const char* part : {"rank ", "layers.0.rows", "experts 0 to 1 for 16 rows", "room for 8",
                             "moe_capacity = 2.0"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
    }
  }
}

TEST(ExpertsTest, RefusesWhatCannotBeWithTheNearestChoice) {
  const std::pair<const char*, const char*> refused[] = {
      {"family=mixtral experts=4 tp=2 ep=3", "does not divide experts = 4"},
      {"family=mixtral experts=6 tp=2 ep=3", "use ep = 1 or 2"},
      {"family=mixtral experts=12 fsdp=4 tp=2 ep=6", "use ep = 1 or 2 or 4 or 8"},
      {"family=mixtral experts=6 tp=4 ep=2", "use ep = 1 or 4"},
      {"family=mixtral experts=4 experts_per_token=5", "use experts_per_token = 4"},
      {"family=mixtral experts=4 moe_capacity=0.5", "use 1 or more, or 0"},
      {"family=mixtral", "needs experts"},
      {"experts=4", "use family = \"mixtral\""},
      {"fsdp=2 ep=2 zero=0", "use ep = 1"},
      {"family=mixtral experts=4 router_aux_coef=0.1 aux_group=3 dp=2 global_batch=8",
       "use aux_group = 2"},
      {"family=mixtral experts=4 tp=4 seq_len=7", "use seq_len = 4 or 8"},
  };
  for (const auto& [line, words] : refused) {
    try {
      parse_case(line);
      ADD_FAILURE() << line << " is accepted";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << line << ": " << e.what();
    }
  }
}

// ---- bits and types ----

TEST(ExpertsTest, ZeroStagesAgreeBitForBit) {
  for (const std::string mesh :
       {"dp=2 global_batch=2", "fsdp=2 ep=2 grad_reduce=step global_batch=8",
        "fsdp=4 ep=2 grad_reduce=micro_batch global_batch=8",
        "dp=2 fsdp=2 tp=2 ep=4 sequence_parallel=true grad_reduce=step global_batch=8"}) {
    for (const char* dtype :
         {" dtype=f64", " dtype=f32", " dtype=bf16", " dtype=f16 loss_scale=64"}) {
      const std::string line = kMixtral + mesh + dtype;
      const TinyCase zero0 = parse_case(line + " zero=0");
      const SampleSource samples = random_samples(zero0.spec, "some");
      const std::vector<StepRecord> reference = testing::record(zero0.spec, samples);
      testing::expect_equal(testing::record(zero0.spec, samples), reference, 0.0);  // two runs
      for (const char* stage : {" zero=1", " zero=2", " zero=3"}) {
        SCOPED_TRACE(line + stage);
        testing::expect_equal(testing::record(parse_case(line + stage).spec, samples), reference,
                              0.0);
      }
    }
  }
}

// The load-balancing loss is scaled like every other gradient; here it outweighs them.
TEST(ExpertsTest, HalfPrecisionFollowsTheRouterGradientOfDouble) {
  const std::string line = "family=mixtral experts=4 router_aux_coef=10 dp=2";
  const TinyCase exact = parse_case(line + " dtype=f64");
  const SampleSource samples = random_samples(exact.spec, "none");
  const std::vector<StepRecord> want = testing::record(exact.spec, samples);
  for (const char* dtype : {" dtype=f32", " dtype=bf16", " dtype=f16"}) {
    const std::vector<StepRecord> got = testing::record(parse_case(line + dtype).spec, samples);
    for (const Difference& d : differences(got[0].gradients, want[0].gradients)) {
      if (d.name.find("block_sparse_moe.gate") == std::string::npos) continue;
      EXPECT_LE(d.relative, 0.1) << d.name << dtype;
    }
  }
}

// ---- figures of a run ----

TEST(ExpertsTest, MetricsTellTheLoadOfEveryExpert) {
  const TestFolder folder;
  folder.write("run.toml", testing::tiny_run_file());
  const testing::CommandResult result =
      testing::tessera(folder,
                       "train run.toml --set model.family=mixtral --set model.experts=4 "
                       "--set model.router_aux_coef=0.1 --set parallel.ep=2");
  ASSERT_EQ(result.code, 0) << result.err;
  const std::vector<nlohmann::json> metrics =
      testing::read_metrics(folder.path("out/metrics.jsonl"));
  int lines = 0;
  for (const nlohmann::json& line : metrics) {
    if (!line.contains("step") || line.contains("event")) continue;
    ++lines;
    const auto load = line.at("experts").at("load").get<std::vector<std::vector<double>>>();
    ASSERT_EQ(load.size(), 2U);
    double most = 0;
    for (const std::vector<double>& layer : load) {
      ASSERT_EQ(layer.size(), 4U);
      EXPECT_EQ(std::accumulate(layer.begin(), layer.end(), 0.0), 4 * 8 * 2);  // two per token
      most = std::max(most, *std::max_element(layer.begin(), layer.end()));
    }
    EXPECT_DOUBLE_EQ(line.at("experts").at("max_over_mean").get<double>(), most / 16);
  }
  EXPECT_EQ(lines, 2);
}

}  // namespace
}  // namespace tessera
