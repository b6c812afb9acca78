// Entries with fields that are missing, odd or contradict each other: each is priced, or skipped
// with a reason that names what is wrong.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "published/comparison.h"

namespace tessera {
namespace {

using nlohmann::json;

// Llama 3 405B as its paper tells it: 126 layers over 16 ranks, virtual stages not counted.
json llama_405b() {
  return json::parse(R"({
    "id": "own-llama-405b",
    "model": {"name": "405b", "layers": 126, "hidden": 16384, "heads": 128, "kv_heads": 8,
              "ffn": 53248, "vocab": 128256, "gated_mlp": true, "tied_embeddings": false},
    "hw": {"gpu": "H100 SXM", "gpus": 16384, "gpus_per_node": 8, "interconnect": "400 Gb/s per GPU"},
    "parallel": {"tp": 8, "pp": 16, "dp": 128, "sp": true, "zero": "FSDP",
                 "schedule": "interleaved"},
    "batch": {"global": 2048, "seq": 8192},
    "opts": {"precision": "bf16", "attention": "flash3"},
    "results": {"mfu": 0.41}})");
}

json patched(const char* patch) {
  json entry = llama_405b();
  entry.merge_patch(json::parse(patch));
  return entry;
}

PublishedReport compared(const json& entry) { return compare_published(json::array({entry})); }

TEST(OddEntriesTest, OpenChoicesAreNeverSeveralTimesSlower) {
  for (const char* patch : {
           R"({})",
           R"({"batch": {"micro": 1}, "opts": {"recompute": "none"}})",
           R"({"batch": {"micro": "auto"}, "opts": {"recompute": {"modules": ["mlp"]}}})",
           R"({"parallel": {"vp": 4, "zero": 2}})",
           R"({"parallel": {"schedule": null, "zero": null}})",
           R"({"parallel": {"tp": null}})",
           R"({"parallel": {"pp": null, "vp": 8}})",
           R"({"parallel": {"dp": null}, "framework": "SomeTrainer 3"})",
           R"({"parallel": {"tp": null, "pp": null, "dp": null, "zero": "DeepSpeed ZeRO-3"},
               "batch": {"global": 16384}})",
           R"({"batch": {"global": null, "tokens_per_batch": 16e6}, "results": {"mfu": 41}})",
           R"({"batch": {"global": null, "grad_accum": 16}})",
           R"({"model": {"layers": 125}, "parallel": {"vp": 3}})",
       }) {
    const PublishedReport report = compared(patched(patch));
    ASSERT_EQ(report.comparisons.size(), 1u)
        << patch << ": " << report.families[0].skipped.at(0).reason;
    EXPECT_GT(report.comparisons[0].error_pct, -50) << patch;
    EXPECT_LT(report.comparisons[0].error_pct, 50) << patch;
  }
}

TEST(OddEntriesTest, WhatCannotBeIsSkippedWithTheReason) {
  const struct {
    const char* patch;
    const char* reason;
  } kOdd[] = {
      {R"({"batch": {"micro": -1}})", "batch.micro is -1"},
      {R"({"batch": {"micro": 1e12}})", "batch.micro is 1000000000000: at most"},
      {R"({"batch": {"global": null, "grad_accum": 1e11}})", "batch.grad_accum is"},
      {R"({"batch": {"global": null, "tokens_per_batch": 1e29}})", "batch.tokens_per_batch is"},
      {R"({"batch": null})", "batch.seq is not given"},
      {R"({"batch": {"global": 1e9}})", "more than can be counted"},
      {R"({"model": null})", "model.layers is not given"},
      {R"({"model": {"layers": 13}})", "more than 13 layers"},
      {R"({"model": {"layers": 14}, "parallel": {"vp": 2}})", "more than 14 layers"},
      {R"({"parallel": {"zero": 4}})", "zero must be from 0 to 3"},
      {R"({"parallel": {"tp": 3}})", "tp = 3 does not divide heads"},
      {R"({"parallel": {"tp": null, "vp": 16, "zero": 1}})",
       "no layout of 16384 devices is possible: pp"},
      {R"({"parallel": {"ep": 8}})", "needs a model with experts"},
      {R"({"hw": null})", "the device is not named"},
      {R"({"hw": {"gpu": "Abacus 9"}})", "no device of the catalogue is called \"abacus 9\""},
      {R"({"hw": {"gpus": 0}})", "hw.gpus is 0: a whole number from 1"},
      {R"({"hw": {"gpus": 0.5}})", "hw.gpus is 0.5: a whole number from 1"},
      {R"({"hw": {"gpus": 1e-320}})", "hw.gpus is 9.99989e-321: a whole number from 1"},
      {R"({"hw": {"gpus": 0}, "batch": {"global": -0.0}})", "hw.gpus is 0"},
      {R"({"batch": {"global": -0.0}})", "batch.global is -0: a whole number from 1"},
      {R"({"batch": {"global": 2048.5}})", "batch.global is 2048.5: a whole number from 1"},
      {R"({"results": null})", "it gives no time"},
      {R"({"results": {"mfu": null, "iter_time_s": 0}})", "results.iter_time_s is 0"},
  };
  for (const auto& odd : kOdd) {
    const PublishedReport report = compared(patched(odd.patch));
    ASSERT_EQ(report.skipped(), 1) << odd.patch;
    EXPECT_NE(report.families[0].skipped[0].reason.find(odd.reason), std::string::npos)
        << odd.patch << ": " << report.families[0].skipped[0].reason;
  }
}

}  // namespace
}  // namespace tessera
