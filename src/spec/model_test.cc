// Models by config.json.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

using nlohmann::json;

json tiny_config() {
  return json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "hidden_act": "silu",
    "head_dim": 8, "hidden_size": 24, "initializer_range": 0.03, "intermediate_size": 88,
    "max_position_embeddings": 128, "mlp_bias": false, "model_type": "llama",
    "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2,
    "pad_token_id": null, "rms_norm_eps": 1e-05,
    "rope_parameters": {"rope_theta": 20000.0, "rope_type": "default"},
    "tie_word_embeddings": true, "vocab_size": 160})");
}

json llama3_rope() {
  return {{"factor", 8.0},
          {"high_freq_factor", 4.0},
          {"low_freq_factor", 1.0},
          {"original_max_position_embeddings", 32},
          {"rope_type", "llama3"}};
}

std::string failure(const json& config) {
  return testing::message_of([&] { model_from_hf_config(config.dump(), "config.json"); });
}

std::string failure_with(const std::string& key, const json& value) {
  json config = tiny_config();
  config[key] = value;
  return failure(config);
}

TEST(HfConfigTest, ReadsEveryField) {
  const ModelSpec model = model_from_hf_config(tiny_config().dump(), "config.json");
  EXPECT_EQ(model.family, "llama");
  EXPECT_EQ(model.layers, 3);
  EXPECT_EQ(model.hidden, 24);
  EXPECT_EQ(model.ffn, 88);
  EXPECT_EQ(model.heads, 4);
  EXPECT_EQ(model.kv_heads, 2);
  EXPECT_EQ(model.head_dim, 8) << "not hidden / heads";
  EXPECT_EQ(model.vocab, 160);
  EXPECT_TRUE(model.tied);
  EXPECT_EQ(model.norm_eps, 1e-5);
  EXPECT_EQ(model.init_std, 0.03);
  EXPECT_EQ(model.rope.theta, 20000.0);
  EXPECT_FALSE(model.rope.llama3_scaling);
}

TEST(HfConfigTest, OptionalFieldsTakeTheDefaultsOfTransformers) {
  json config = tiny_config();
  for (const char* key : {"num_key_value_heads", "head_dim", "rms_norm_eps", "rope_parameters",
                          "tie_word_embeddings", "initializer_range", "hidden_act"}) {
    config.erase(key);
  }
  config["head_dim"] = nullptr;
  const ModelSpec model = model_from_hf_config(config.dump(), "config.json");
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_EQ(model.head_dim, 0);
  EXPECT_EQ(model.norm_eps, 1e-6);
  EXPECT_EQ(model.rope.theta, 10000.0);
  EXPECT_FALSE(model.tied);
  EXPECT_EQ(model.init_std, 0.02);
}

TEST(HfConfigTest, ReadsLlama3RopeOfBothFileGenerations) {
  json newer = tiny_config();
  newer["rope_parameters"] = llama3_rope();
  newer["rope_parameters"]["rope_theta"] = 500000.0;
  json older = tiny_config();
  older.erase("rope_parameters");
  older["rope_scaling"] = llama3_rope();
  older["rope_theta"] = 500000.0;
  for (const json& config : {newer, older}) {
    const ModelSpec model = model_from_hf_config(config.dump(), "config.json");
    EXPECT_TRUE(model.rope.llama3_scaling);
    EXPECT_EQ(model.rope.theta, 500000.0);
    EXPECT_EQ(model.rope.factor, 8.0);
    EXPECT_EQ(model.rope.low_freq_factor, 1.0);
    EXPECT_EQ(model.rope.high_freq_factor, 4.0);
    EXPECT_EQ(model.rope.original_max_position, 32);
  }
}

TEST(HfConfigTest, RefusesWhatItCannotCompute) {
  EXPECT_EQ(failure_with("model_type", "bert"),
            "config.json: model_type \"bert\" is not supported; supported are llama, mistral, "
            "qwen2, qwen3, gpt2, mixtral");
  EXPECT_EQ(failure_with("hidden_act", "gelu"),
            "config.json: hidden_act = \"gelu\" is not supported; only \"silu\" is");
  EXPECT_EQ(failure_with("rope_scaling", {{"type", "linear"}, {"factor", 2.0}}),
            "config.json: rope_scaling has rope type \"linear\"; supported are \"default\" and "
            "\"llama3\"");
  EXPECT_EQ(failure_with("rope_parameters", {{"rope_type", "yarn"}}),
            "config.json: rope_parameters has rope type \"yarn\"; supported are \"default\" and "
            "\"llama3\"");
  EXPECT_EQ(failure_with("rope_parameters", {{"rope_type", "llama3"}}),
            "config.json: rope_parameters.factor is missing");
  EXPECT_NE(failure_with("quantization_config", {{"bits", 4}}), "no error");
}

TEST(HfConfigTest, ReadsTheRouterOfMixtral) {
  json config = tiny_config();
  config["model_type"] = "mixtral";
  EXPECT_EQ(failure(config), "config.json: num_local_experts is missing");
  config["num_local_experts"] = 6;
  config["num_experts_per_tok"] = 3;
  config["router_aux_loss_coef"] = 0.25;
  ModelSpec model = model_from_hf_config(config.dump(), "config.json");
  EXPECT_EQ(model.family, "mixtral");
  EXPECT_EQ(model.experts, 6);
  EXPECT_EQ(model.experts_per_token, 3);
  EXPECT_EQ(model.router_aux_coef, 0.0) << "Transformers adds the loss only when told to";
  config["output_router_logits"] = true;
  EXPECT_EQ(model_from_hf_config(config.dump(), "config.json").router_aux_coef, 0.25);
  config["router_jitter_noise"] = 0.1;
  EXPECT_NE(failure(config), "no error");
}

TEST(HfConfigTest, RefusesMissingAndMistypedFields) {
  json config = tiny_config();
  config.erase("hidden_size");
  EXPECT_EQ(failure(config), "config.json: hidden_size is missing");
  config = tiny_config();
  config.erase("model_type");
  EXPECT_EQ(failure(config),
            "config.json: model_type is missing; supported are llama, mistral, qwen2, qwen3, gpt2, "
            "mixtral");
  EXPECT_EQ(failure_with("hidden_size", "big"),
            "config.json: hidden_size must be an integer, got string \"big\"");
  EXPECT_EQ(failure_with("vocab_size", -1),
            "config.json: vocab_size must be an integer from 1 to 1000000000000, got integer -1");
  EXPECT_EQ(failure_with("rope_scaling", 3),
            "config.json: rope_scaling must be an object, got number");
  EXPECT_EQ(failure(json::array()), "config.json: expected an object, got array");
}

TEST(HfConfigTest, SyntaxErrorsAndDepthAreBounded) {
  try {
    model_from_hf_config("{\n\"a\" 1}", "dir/config.json");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("dir/config.json:2:5: ")) << error.what();
  }
  EXPECT_THROW(model_from_hf_config(std::string(1000, '['), "config.json"), ConfigError);
}

}  // namespace
}  // namespace tessera
