#include "published/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/text/json.h"
#include "published/bubble.h"
#include "published/entry.h"
#include "published/hardware.h"

namespace tessera {
namespace {

using nlohmann::json;

const PublishedReport& report() {
  static const PublishedReport kReport = [] {
    const std::string path = TESSERA_SOURCE_DIR "/tests/data/published/extract.json";
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return compare_published(parse_json(text.str(), path));
  }();
  return kReport;
}

const QuantityReport& first_of(const std::string& family) {
  for (const FamilyReport& f : report().families) {
    if (f.family == family) return f.quantities.at(0);
  }
  throw InternalError("no family " + family);
}

json entry(const std::string& id) {
  json run;
  run["id"] = id;
  run["model"] = {{"layers", 24},       {"hidden", 2048},         {"ffn", 8192},
                  {"heads", 16},        {"kv_heads", 16},         {"vocab", 50257},
                  {"gated_mlp", false}, {"tied_embeddings", true}};
  run["hw"] = {
      {"gpu", "A100-SXM4-80GB"},
      {"gpus", 16},
      {"gpus_per_node", 8},
      {"interconnect", "NVLink3 300 GB/s/dir; 8x HDR200 IB compute NICs/node (25 GB/s each)"}};
  run["parallel"] = {{"tp", 2}, {"pp", 2}, {"dp", 4}, {"vp", 1}, {"zero", 0}};
  run["batch"] = {{"micro", 4}, {"global", 64}, {"seq", 1024}};
  run["opts"] = {{"recompute", "full"}, {"precision", "fp16"}, {"attention", "unfused"}};
  run["results"] = {{"iter_time_s", 1.0}};
  return run;
}

TEST(PublishedTest, StepTimesAreWithinTheGates) {
  EXPECT_LT(first_of("sc21-t1").errors.mean_abs_pct, 8);
  EXPECT_LT(first_of("seqsel-t5").errors.mean_abs_pct, 5);
  EXPECT_LT(first_of("vtrain-multi").errors.mean_abs_pct, 10);
  EXPECT_LT(first_of("bloom-topo").errors.mean_abs_pct, 9);
}

TEST(PublishedTest, BytesAreWithinOnePercentOnEveryRank) {
  for (const char* family : {"simumax-b200", "mcore-golden"}) {
    EXPECT_EQ(first_of(family).what, "memory");
    EXPECT_LT(std::abs(first_of(family).errors.worst_pct), 1) << family;
  }
  EXPECT_EQ(first_of("simumax-b200").errors.n, 16);  // eight ranks of two runs
}

TEST(PublishedTest, BubblesAreWithinAPoint) {
  EXPECT_EQ(first_of("zb-t5").what, "bubble");
  EXPECT_LT(std::abs(first_of("zb-t5").errors.worst_pct), 1);
  const ProfiledTimes times = profiled_times("6.2B", 8, 24).value();
  EXPECT_NEAR(*published_bubble(times, 8, 24, "ZB-H1"), 0.1323, 1e-4);
  EXPECT_FALSE(published_bubble(times, 8, 24, "ZB-2p").has_value());
  EXPECT_FALSE(profiled_times("7B", 8, 24).has_value());
  // Table 8 has other ranks: the message follows from 1F1B, the rest is predicted.
  const ProfiledTimes other = derived_times("6.2B", 16, 48, 0.2668).value();
  EXPECT_NEAR(*published_bubble(other, 16, 48, "1F1B"), 0.2668, 1e-4);
  EXPECT_NEAR(*published_bubble(other, 16, 48, "ZB-H1"), 0.1536, 0.01);
}

TEST(PublishedTest, PartsAreComparedWhereARunIsNot) {
  EXPECT_EQ(first_of("seqsel-t4").what, "layer time");
  EXPECT_EQ(first_of("seqsel-fig7").what, "share of activations");
  EXPECT_LT(first_of("seqsel-fig7").errors.mean_abs_pct, 10);
}

TEST(PublishedTest, WhatCannotBeExpressedIsSkippedWithAReason) {
  int skipped = 0;
  for (const FamilyReport& family : report().families) {
    for (const SkippedEntry& e : family.skipped) {
      ++skipped;
      EXPECT_FALSE(e.reason.empty());
    }
  }
  EXPECT_EQ(skipped, report().skipped());
  EXPECT_EQ(skipped, 1);  // neither devices nor batch nor vocabulary are given
}

TEST(PublishedTest, AFamilyIsTheFirstTwoParts) {
  EXPECT_EQ(family_of("sc21-t1-1.7B"), "sc21-t1");
  EXPECT_EQ(family_of("llama2-34B"), "llama2-34B");
  EXPECT_EQ(family_of("alone"), "alone");
}

TEST(PublishedTest, LinksAreReadFromTheText) {
  const auto cluster = [](const char* gpu, const char* text, int64_t devices) {
    std::vector<Guess> guesses;
    return cluster_of_text({{"gpu", gpu}, {"gpus_per_node", 8}, {"interconnect", text}}, devices,
                           {}, guesses);
  };
  const auto network = [&](const char* text) {
    return cluster("A100-80GB", text, 64).levels[1].bandwidth.value;
  };
  EXPECT_EQ(network("NVSwitch; 800 Gb/s per node (vTrain config)"), 12.5e9);
  EXPECT_EQ(network("NVLink3 (4 links/GPU); 4x Omni-Path 100G per node"), 6.25e9);
  EXPECT_EQ(network("NVLink3 300 GB/s/dir; 8x HDR200 IB compute NICs/node (25 GB/s each)"), 25e9);
  EXPECT_EQ(network("1600 Gbps/node RoCE"), 25e9);
  EXPECT_EQ(network("NVLink; RDMA 400 Gb/s per GPU"), 50e9);
  EXPECT_EQ(cluster("A100", "NVLink3 (4 links/GPU)", 8).levels[0].bandwidth.value, 100e9);
  EXPECT_EQ(cluster("GB200", "NVL72", 64).node_devices(), 72);
  EXPECT_EQ(cluster("H100 SXM 96GB HBM2e 2.4TB/s, 500 W cap", "", 8).device.name, "h100-96");
  EXPECT_THROW(cluster("Z9000", "", 8), ConfigError);
}

TEST(PublishedTest, RatesBecomeTimes) {
  json run = entry("a-b-1");
  EXPECT_EQ(run_of_entry(run).step_s, 1.0);
  run["results"] = {{"tokens_per_s_per_gpu", 1024}};
  EXPECT_DOUBLE_EQ(*run_of_entry(run).step_s, 64.0 * 1024 / (1024 * 16));
  // Narayanan et al. 2021: 96 B s l h^2 (1 + s/6h + V/16lh), with the padded vocabulary.
  run["results"] = {{"tflops_per_gpu", 100}};
  const double b = 64, s = 1024, l = 24, h = 2048, v = 50432;
  const double flops = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  EXPECT_NEAR(*run_of_entry(run).step_s, flops / (100e12 * 16), 1e-9);
}

TEST(PublishedTest, WordsOnKernelsAreRead) {
  json run = entry("a-b-1");
  const auto attention = [&](const char* text) {
    run["opts"]["attention"] = text;
    return run_of_entry(run).workload.attention;
  };
  EXPECT_EQ(attention("unfused (fused softmax)"), AttentionKind::kUnfused);
  EXPECT_EQ(attention("TE flash"), AttentionKind::kFlash);
  EXPECT_EQ(attention("flash (TE)"), AttentionKind::kFlash);
  EXPECT_EQ(attention("flash (Triton)"), AttentionKind::kPortableFlash);
  // Who does not say it had what models of the kind had.
  EXPECT_EQ(attention("not stated"), AttentionKind::kUnfused);
  run["model"]["gated_mlp"] = true;
  EXPECT_EQ(attention("not stated"), AttentionKind::kPortableFlash);
  EXPECT_FALSE(run_of_entry(run).guesses.empty());

  const auto plan = [&](const char* text) {
    run["opts"]["precision"] = text;
    return run_of_entry(run).workload.precision;
  };
  EXPECT_TRUE(plan("fp16").adds_gradients_apart);
  EXPECT_TRUE(plan("bf16 (fp32 grad accum)").adds_gradients_apart);
  EXPECT_FALSE(plan("bf16").adds_gradients_apart);
  run["hw"]["gpu"] = "H100";
  EXPECT_EQ(plan("float8-tensorwise").products, MathType::kF8);
  EXPECT_EQ(plan("float8-rowwise").products, MathType::kF16);

  EXPECT_EQ(run_of_entry(run).engine, "megatron");
  run["parallel"]["schedule"] = "1f1b (DeepSpeed)";
  EXPECT_EQ(run_of_entry(run).engine, "deepspeed");
  EXPECT_EQ(run_of_entry(run).workload.engine.kernels_wait_for_host, 1);
}

TEST(PublishedTest, WhatRunsBesideKernelsIsGuessedFromTheEngine) {
  json run = entry("a-b-1");
  EXPECT_FALSE(run_of_entry(run).workload.overlap.data);  // a pipeline, and nothing is said
  run["parallel"]["zero"] = "distributed optimizer (ZeRO-1)";
  EXPECT_TRUE(run_of_entry(run).workload.overlap.data);
  EXPECT_FALSE(run_of_entry(run).workload.overlap.pipeline);
  run["parallel"]["vp"] = 2;
  EXPECT_TRUE(run_of_entry(run).workload.overlap.pipeline);
  run["opts"]["overlap"] = "none";
  EXPECT_FALSE(run_of_entry(run).workload.overlap.data);
  EXPECT_FALSE(run_of_entry(run).workload.overlap.pipeline);
}

// Mixtral 8x7B with tp 2, pp 4, ep 8.
json experts_entry() {
  json run = entry("a-b-1");
  run["model"] = {{"layers", 32},
                  {"hidden", 4096},
                  {"ffn", 14336},
                  {"heads", 32},
                  {"kv_heads", 8},
                  {"vocab", 32000},
                  {"gated_mlp", true},
                  {"tied_embeddings", false},
                  {"moe", {{"experts", 8}, {"topk", 2}}}};
  run["hw"] = {{"gpu", "H100"}, {"gpus_per_node", 8}, {"interconnect", "NVLink4; NDR400 IB"}};
  run["parallel"] = {{"tp", 2}, {"pp", 4},    {"ep", 8},
                     {"vp", 8}, {"sp", true}, {"zero", "distributed optimizer (ZeRO-1)"}};
  run["batch"] = {{"micro", 1}, {"global", 256}, {"seq", 4096}};
  run["opts"] = {{"recompute", "none"}, {"precision", "bf16"}, {"attention", "TE fused"}};
  return run;
}

TEST(PublishedTest, HeadsHaveAnEvenSize) {
  json run = experts_entry();
  run["hw"]["gpus"] = 32;
  run["model"]["hidden"] = 2880;
  run["model"]["heads"] = 64;
  EXPECT_EQ(run_of_entry(run).workload.model.head_dim, 64);
  run["model"]["heads"] = 60;
  run["parallel"]["tp"] = 1;
  EXPECT_EQ(run_of_entry(run).workload.model.head_dim, 48);
}

TEST(PublishedTest, DevicesFollowFromBytes) {
  json run = experts_entry();
  // Enough for the experts' groups where nothing else is known.
  EXPECT_EQ(run_of_entry(run).strategy.dp, 4);
  // 1.4 B of expert weights and 0.24 B of others: 12 and 7.5 bytes each.
  run["results"]["steady_allocated_bytes"] = 19.7e9;
  EXPECT_EQ(run_of_entry(run).strategy.dp, 8);
  run["hw"]["gpus"] = 32;
  EXPECT_EQ(run_of_entry(run).strategy.dp, 4);
}

TEST(PublishedTest, AnExchangeOverTheNetworkRunsBesideAnotherMicroBatch) {
  json run = experts_entry();
  run["hw"]["gpus"] = 64;
  EXPECT_FALSE(run_of_entry(run).workload.overlap.experts);  // within a node
  run["model"]["moe"]["experts"] = 64;
  run["parallel"]["ep"] = 16;
  EXPECT_TRUE(run_of_entry(run).workload.overlap.experts);
  run["parallel"]["vp"] = 1;
  EXPECT_FALSE(run_of_entry(run).workload.overlap.experts);
}

TEST(PublishedTest, LaterTokensFollowFromBothRates) {
  json run = experts_entry();
  run["model"] = {
      {"name", "DeepSeek-V3"},
      {"layers", 61},
      {"hidden", 7168},
      {"ffn", 18432},
      {"heads", 128},
      {"kv_heads", 128},
      {"vocab", 129280},
      {"gated_mlp", true},
      {"tied_embeddings", false},
      {"moe", {{"experts", 256}, {"topk", 8}, {"shared", 1}, {"ffn", 2048}, {"dense_layers", 3}}}};
  run["hw"]["gpus"] = 256;
  run["parallel"] = {{"tp", 1}, {"pp", 8}, {"ep", 8}, {"vp", 1}, {"zero", 1}};
  run["results"] = {{"tokens_per_s_per_gpu", 1000}, {"tflops_per_gpu", 249}};
  EXPECT_EQ(run_of_entry(run).workload.model.mtp_layers, 0);
  run["results"]["tflops_per_gpu"] = 260;
  EXPECT_EQ(run_of_entry(run).workload.model.mtp_layers, 1);
  EXPECT_EQ(run_of_entry(run).strategy.stage_layers.back(), 5);
  run["model"]["mtp_layers"] = 0;
  EXPECT_EQ(run_of_entry(run).workload.model.mtp_layers, 0);
}

TEST(PublishedTest, RegretIsOverAllLayoutsOfTheSameWork) {
  json runs = json::array();
  // Vocabularies are padded differently with tp: still the same work.
  for (const int tp : {1, 2, 4}) {
    json run = entry("a-b-" + std::to_string(tp));
    run["parallel"] = {{"tp", tp}, {"pp", 2}, {"dp", 8 / tp}, {"vp", 1}, {"zero", 0}};
    run["results"]["iter_time_s"] = tp == 4 ? 1.0 : 2.0;
    runs.push_back(run);
  }
  const PublishedReport result = compare_published({{"entries", runs}});
  const QuantityReport& times = result.families.at(0).quantities.at(0);
  EXPECT_EQ(times.regret_sets, 1);
  EXPECT_DOUBLE_EQ(times.regret_pct, 100);
}

TEST(PublishedTest, BadEntriesAreRefusedWithTheirField) {
  const auto reason = [](const std::function<void(json&)>& change) {
    json run = entry("a-b-1");
    change(run);
    const PublishedReport result = compare_published({{"entries", {run}}});
    return result.skipped() == 1 ? result.families.at(0).skipped.at(0).reason : "accepted";
  };
  EXPECT_EQ(reason([](json&) {}), "accepted");
  EXPECT_EQ(reason([](json& e) { e["model"]["layers"] = nullptr; }), "model.layers is not given");
  EXPECT_NE(reason([](json& e) { e["model"]["hidden"] = 1e18; }).find("model.hidden"),
            std::string::npos);
  EXPECT_NE(reason([](json& e) { e["parallel"]["tp"] = 3; }).find("tp"), std::string::npos);
  EXPECT_NE(reason([](json& e) { e["results"]["iter_time_s"] = -1; }).find("iter_time_s"),
            std::string::npos);
  EXPECT_NE(reason([](json& e) { e["hw"]["gpu"] = "abacus"; }).find("abacus"), std::string::npos);
  for (const char* key : {"tp", "pp", "cp", "dp", "ep", "vp"}) {
    EXPECT_NE(reason([&](json& e) { e["parallel"][key] = 1e12; }).find("at most"),
              std::string::npos)
        << key;
  }
  EXPECT_NE(reason([](json& e) {
              e = experts_entry();
              e["results"]["steady_allocated_bytes"] = 1e9;
              e["parallel"]["ep"] = 3;
            }).find("ep"),
            std::string::npos);
  EXPECT_NE(reason([](json& e) { e["results"] = json::object(); }).find("no time"),
            std::string::npos);
  EXPECT_THROW(compare_published({{"a", 1}}), ConfigError);
}

TEST(PublishedTest, TheJsonHasARowForEveryFamily) {
  const nlohmann::ordered_json out = published_json(report());
  ASSERT_EQ(out["families"].size(), report().families.size());
  for (const auto& row : out["families"]) {
    for (const char* key : {"family", "n", "skipped"}) EXPECT_TRUE(row.contains(key));
    if (row["n"] == 0) continue;
    for (const char* key : {"mean_abs_error_pct", "bias_pct", "worst_pct", "spearman"}) {
      EXPECT_TRUE(row[key].is_number()) << row.dump();
    }
  }
  EXPECT_EQ(out.dump(), published_json(report()).dump());
}

TEST(StatisticsTest, RankCorrelation) {
  const std::vector<double> up = {1, 2, 3, 4}, down = {4, 3, 2, 1}, flat = {1, 1, 1, 1};
  EXPECT_DOUBLE_EQ(spearman(up, up), 1);
  EXPECT_DOUBLE_EQ(spearman(up, down), -1);
  EXPECT_DOUBLE_EQ(spearman(up, flat), 0);
  const std::vector<double> ties = {1, 2, 2, 4}, other = {1, 3, 2, 4};
  EXPECT_NEAR(spearman(ties, other), 0.9486832980505138, 1e-12);
}

TEST(StatisticsTest, Errors) {
  const ErrorSummary errors =
      summarize(std::vector<double>{110, 80}, std::vector<double>{100, 100});
  EXPECT_NEAR(errors.mean_abs_pct, 15, 1e-9);
  EXPECT_NEAR(errors.bias_pct, -5, 1e-9);
  EXPECT_NEAR(errors.worst_pct, -20, 1e-9);
}

}  // namespace
}  // namespace tessera
