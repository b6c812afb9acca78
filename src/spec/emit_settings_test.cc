#include "spec/emit_settings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "spec/run_file.h"
#include "spec/validate.h"

namespace tessera {
namespace {

RunSpec spec_with(std::vector<std::string> changes) {
  changes.insert(changes.begin(), {"model.preset=llama-3-8b", "train.dtype=bf16"});
  RunSpec spec = parse_run_file("", "", changes, nullptr);
  resolve(spec);
  return spec;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(EmitSettings, GivesMegatronItsFlags) {
  const std::string text =
      emit_settings(spec_with({"parallel.tp=4", "parallel.pp=2", "parallel.dp=8", "parallel.zero=1",
                               "parallel.sequence_parallel=true", "parallel.recompute=full",
                               "train.global_batch=64"}),
                    "megatron");
  EXPECT_TRUE(has(text, "--tensor-model-parallel-size 4\n"));
  EXPECT_TRUE(has(text, "--pipeline-model-parallel-size 2\n"));
  EXPECT_TRUE(has(text, "--num-query-groups 8\n"));
  EXPECT_TRUE(has(text, "--use-distributed-optimizer\n"));
  EXPECT_TRUE(has(text, "--sequence-parallel\n"));
  EXPECT_TRUE(has(text, "--recompute-granularity full\n"));
  EXPECT_TRUE(has(text, "--global-batch-size 64\n"));
  EXPECT_TRUE(has(text, "--untie-embeddings-and-output-weights\n"));
  EXPECT_FALSE(has(text, "not expressed"));
}

TEST(EmitSettings, SaysWhatASystemCannotBeTold) {
  const RunSpec spec = spec_with({"parallel.pp=2", "parallel.schedule=zb-h1",
                                  "parallel.recompute=light", "train.global_batch=4"});
  EXPECT_TRUE(has(emit_settings(spec, "megatron"), "# not expressed: schedule zb-h1"));
  EXPECT_TRUE(has(emit_settings(spec, "torchtitan"), "# not expressed: recompute = \"light\""));
  EXPECT_TRUE(has(emit_settings(spec, "deepspeed"), "schedule = zb-h1"));
}

TEST(EmitSettings, GivesTorchtitanItsDegrees) {
  const std::string text =
      emit_settings(spec_with({"parallel.fsdp=8", "parallel.dp=2", "parallel.tp=2"}), "torchtitan");
  EXPECT_TRUE(has(text, "data_parallel_replicate_degree = 2\n"));
  EXPECT_TRUE(has(text, "data_parallel_shard_degree = 8\n"));
  EXPECT_TRUE(has(text, "tensor_parallel_degree = 2\n"));
}

TEST(EmitSettings, GivesDeepSpeedJson) {
  const auto json = nlohmann::json::parse(
      emit_settings(spec_with({"parallel.dp=4", "parallel.zero=2", "train.micro_batch=2",
                               "train.global_batch=32"}),
                    "deepspeed"));
  EXPECT_EQ(json.at("zero_optimization").at("stage"), 2);
  EXPECT_EQ(json.at("gradient_accumulation_steps"), 4);
  EXPECT_EQ(json.at("train_batch_size"), 32);
  EXPECT_TRUE(json.at("bf16").at("enabled").get<bool>());
}

TEST(EmitSettings, RefusesASystemItDoesNotKnow) {
  EXPECT_THROW(emit_settings(spec_with({}), "megatrom"), ConfigError);
}

}  // namespace
}  // namespace tessera
