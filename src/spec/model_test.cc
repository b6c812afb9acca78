// Models by name and by config.json.
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "spec/run_file.h"
#include "spec/validate.h"

namespace tessera {
namespace {

using nlohmann::json;

int64_t parameters(const ModelSpec& m) {
  const int64_t q = m.heads * m.head_dim, kv = m.kv_heads * m.head_dim;
  const int64_t norm = m.norm == "layer" ? 2 * m.hidden : m.hidden;
  int64_t attention = 2 * m.hidden * (q + kv);
  if (m.attention_bias != "none") attention += q + 2 * kv;
  if (m.attention_bias == "all") attention += m.hidden;
  if (m.qk_norm) attention += 2 * m.head_dim;
  int64_t mlp = (m.mlp == "swiglu" ? 3 : 2) * m.hidden * m.ffn;
  if (m.mlp_bias) mlp += m.ffn + m.hidden;
  if (m.experts > 0) mlp = m.experts * (mlp + m.hidden);  // and the router
  return m.layers * (attention + mlp + 2 * norm) + (m.tied ? 1 : 2) * m.vocab * m.hidden +
         m.max_positions * m.hidden + norm;
}

// Counts as published with the weights.
TEST(PresetTest, ParameterCountsMatchThePublishedModels) {
  const std::map<std::string, int64_t> published = {
      {"tiny-4m", 2'967'808},
      {"llama-2-7b", 6'738'415'616},
      {"llama-2-13b", 13'015'864'320},
      {"llama-2-70b", 68'976'648'192},
      {"llama-3-8b", 8'030'261'248},
      {"llama-3-70b", 70'553'706'496},
      {"llama-3.1-8b", 8'030'261'248},
      {"llama-3.1-70b", 70'553'706'496},
      {"llama-3.1-405b", 405'853'388'800},
      {"llama-3-405b", 405'853'388'800},
      {"llama-3.2-1b", 1'235'814'400},
      {"llama-3.2-3b", 3'212'749'824},
      {"gpt2", 124'439'808},
      {"gpt2-medium", 354'823'168},
      {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200},
      {"mistral-7b", 7'241'732'096},
      {"qwen2-0.5b", 494'032'768},
      {"qwen2-7b", 7'615'616'512},
      {"qwen3-0.6b", 596'049'920},
      {"qwen3-8b", 8'190'735'360},
      {"mixtral-8x7b", 46'702'792'704},
  };
  EXPECT_EQ(model_preset_names().size(), published.size());
  for (const std::string& name : model_preset_names()) {
    ASSERT_TRUE(published.contains(name)) << name;
    EXPECT_EQ(parameters(model_preset(name)), published.at(name)) << name;
  }
}

TEST(PresetTest, EachResolvesAndNamesItself) {
  for (const std::string& name : model_preset_names()) {
    RunSpec spec;
    spec.model = model_preset(name);
    EXPECT_EQ(spec.model.preset, name);
    EXPECT_NO_THROW(resolve(spec)) << name;
  }
}

TEST(PresetTest, RopeFollowsTheGeneration) {
  EXPECT_EQ(model_preset("llama-2-7b").rope.theta, 1e4);
  EXPECT_FALSE(model_preset("llama-3-8b").rope.llama3_scaling);
  EXPECT_EQ(model_preset("llama-3-8b").rope.theta, 5e5);
  EXPECT_TRUE(model_preset("llama-3.1-8b").rope.llama3_scaling);
  EXPECT_EQ(model_preset("llama-3.1-8b").rope.factor, 8);
  EXPECT_EQ(model_preset("llama-3.2-1b").rope.factor, 32);
  EXPECT_EQ(model_preset("llama-3.2-3b").head_dim, 128);
}

TEST(PresetTest, UnknownNamesListTheCatalogue) {
  try {
    model_preset("gpt-5");
    FAIL();
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with("unknown model preset \"gpt-5\"; known presets: tiny-4m, "));
    for (const std::string& name : model_preset_names()) {
      EXPECT_NE(message.find(name), std::string::npos) << name;
    }
  }
}

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
  try {
    model_from_hf_config(config.dump(), "config.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
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
