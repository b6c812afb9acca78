// Families: what their blocks are made of, in run files and in config.json.
#include "spec/families.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

using testing::message_of;

using nlohmann::json;

std::string nothing(const std::string& /*path*/) { return {}; }

RunSpec parse(const std::string& text) { return parse_run_file(text, "run.toml", {}, nothing); }

constexpr const char* kShape = "layers = 2\nhidden = 16\nffn = 24\nheads = 4\nvocab = 40\n";

TEST(FamilyTest, ANamedFamilyBringsItsBlocks) {
  const ModelSpec gpt2 = parse(std::string("[model]\nfamily = \"gpt2\"\n") + kShape).model;
  EXPECT_EQ(gpt2.norm, NormKind::kLayer);
  EXPECT_EQ(gpt2.mlp, MlpKind::kGelu);
  EXPECT_EQ(gpt2.positions, PositionKind::kLearned);
  EXPECT_EQ(gpt2.attention_bias, AttentionBias::kAll);
  EXPECT_TRUE(gpt2.mlp_bias);
  EXPECT_TRUE(gpt2.tied);
  EXPECT_EQ(parse("[model]\nfamily = \"qwen2\"\n" + std::string(kShape)).model.attention_bias,
            AttentionBias::kQkv);
  EXPECT_TRUE(parse("[model]\nfamily = \"qwen3\"\n" + std::string(kShape)).model.qk_norm);
  EXPECT_EQ(parse("[model]\nfamily = \"mistral\"\n" + std::string(kShape)).model.sliding_window,
            4096);
}

TEST(FamilyTest, KeysOfTheFileWinOverTheFamily) {
  const ModelSpec model =
      parse("[model]\ntied = false\nsliding_window = 8\nfamily = \"mistral\"\n" +
            std::string(kShape))
          .model;
  EXPECT_EQ(model.sliding_window, 8);
  const ModelSpec mixed =
      parse("[model]\nnorm = \"layer\"\nmlp = \"gelu\"\nmlp_bias = true\n" + std::string(kShape))
          .model;
  EXPECT_EQ(mixed.family, ModelFamily::kLlama);
  EXPECT_EQ(mixed.norm, NormKind::kLayer);
}

TEST(FamilyTest, APresetKeepsItsOwn) {
  RunSpec spec = parse("[model]\npreset = \"gpt2\"\n");
  EXPECT_EQ(spec.model.family, ModelFamily::kGpt2);
  EXPECT_EQ(spec.model.max_positions, 1024);
  EXPECT_NO_THROW(resolve(spec));
  EXPECT_EQ(spec.model.head_dim, 64);
  RunSpec qwen = parse("[model]\npreset = \"qwen3-0.6b\"\n");
  resolve(qwen);
  EXPECT_EQ(qwen.model.head_dim, 128) << "not hidden / heads";
}

TEST(FamilyTest, ResolvedRunsKeepEveryChoice) {
  RunSpec spec = parse("[model]\npreset = \"gpt2\"\n");
  resolve(spec);
  const RunSpec again = run_spec_from_json(to_json(spec));
  EXPECT_EQ(to_json(again), to_json(spec));
  EXPECT_EQ(again.model.norm, NormKind::kLayer);
}

TEST(FamilyTest, RefusesWhatAFamilyHasNoRoomFor) {
  const auto gpt2_with = [](const std::string& line) {
    return message_of([&] {
      RunSpec spec = parse("[model]\nfamily = \"gpt2\"\n" + line + "\n" + kShape);
      resolve(spec);
    });
  };
  EXPECT_EQ(gpt2_with("tied = false"), "no error");
  EXPECT_EQ(gpt2_with("norm = \"rms\""),
            "model.family = \"gpt2\" needs norm = \"layer\"; for other combinations use family = "
            "\"llama\" and set the options one by one");
  for (const char* line :
       {"mlp = \"swiglu\"", "positions = \"rope\"", "attention_bias = \"qkv\"", "mlp_bias = false",
        "qk_norm = true", "sliding_window = 4", "kv_heads = 2", "head_dim = 8"}) {
    EXPECT_NE(gpt2_with(line).find("needs "), std::string::npos) << line << gpt2_with(line);
  }
  EXPECT_EQ(message_of([] { parse("[model]\nfamily = \"gpt5\"\n" + std::string(kShape)); }),
            "run.toml:2:10: model.family must be one of llama, mistral, qwen2, qwen3, gpt2, "
            "mixtral, got string \"gpt5\"; did you mean 'gpt2'?");
}

TEST(FamilyTest, LearnedPositionsBoundTheSequence) {
  RunSpec spec = parse("[model]\nfamily = \"gpt2\"\nmax_positions = 64\n" + std::string(kShape));
  spec.train.seq_len = 65;
  EXPECT_EQ(message_of([&] { resolve(spec); }),
            "train.seq_len = 65 is more than the model's max_positions = 64; use seq_len = 64, or "
            "a model with more positions");
  spec.train.seq_len = 64;
  EXPECT_NO_THROW(resolve(spec));
  spec.model.max_positions = 0;
  resolve(spec);
  EXPECT_EQ(spec.model.max_positions, 64);
}

ModelSpec from_config(const json& config) {
  return model_from_hf_config(config.dump(), "config.json");
}

json gpt2_config() {
  return json::parse(R"({
    "activation_function": "gelu_new", "layer_norm_epsilon": 2e-5, "initializer_range": 0.03,
    "model_type": "gpt2", "n_embd": 24, "n_head": 4, "n_inner": null, "n_layer": 2,
    "n_positions": 128, "vocab_size": 160, "scale_attn_weights": true})");
}

json llama_like(const std::string& type) {
  return json{{"model_type", type},       {"num_hidden_layers", 2},
              {"hidden_size", 24},        {"intermediate_size", 64},
              {"num_attention_heads", 6}, {"num_key_value_heads", 3},
              {"vocab_size", 160},        {"head_dim", 8}};
}

TEST(FamilyConfigTest, ReadsGpt2) {
  ModelSpec model = from_config(gpt2_config());
  EXPECT_EQ(model.family, ModelFamily::kGpt2);
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.hidden, 24);
  EXPECT_EQ(model.ffn, 96) << "four times the width";
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_EQ(model.max_positions, 128);
  EXPECT_EQ(model.norm_eps, 2e-5);
  EXPECT_EQ(model.init_std, 0.03);
  EXPECT_TRUE(model.tied) << "GPT-2 is tied unless it says otherwise";
  json config = gpt2_config();
  config["n_inner"] = 40;
  config["tie_word_embeddings"] = false;
  model = from_config(config);
  EXPECT_EQ(model.ffn, 40);
  EXPECT_FALSE(model.tied);
}

TEST(FamilyConfigTest, RefusesOtherKindsOfGpt2) {
  for (const auto& [key, value] : {std::pair<std::string, json>{"activation_function", "relu"},
                                   {"scale_attn_weights", false},
                                   {"scale_attn_by_inverse_layer_idx", true},
                                   {"add_cross_attention", true}}) {
    json config = gpt2_config();
    config[key] = value;
    EXPECT_NE(message_of([&] { from_config(config); }).find(key), std::string::npos) << key;
  }
}

TEST(FamilyConfigTest, ReadsBiasesNormsAndWindows) {
  EXPECT_EQ(from_config(llama_like("qwen2")).attention_bias, AttentionBias::kQkv);
  EXPECT_EQ(from_config(llama_like("llama")).attention_bias, AttentionBias::kNone);
  json config = llama_like("llama");
  config["attention_bias"] = true;
  config["mlp_bias"] = true;
  EXPECT_EQ(from_config(config).attention_bias, AttentionBias::kAll);
  EXPECT_TRUE(from_config(config).mlp_bias);
  config = llama_like("qwen3");
  EXPECT_TRUE(from_config(config).qk_norm);
  EXPECT_EQ(from_config(config).attention_bias, AttentionBias::kNone);
  config["attention_bias"] = true;
  EXPECT_EQ(from_config(config).attention_bias, AttentionBias::kAll);
  config = llama_like("mistral");
  EXPECT_EQ(from_config(config).sliding_window, 4096) << "as Transformers takes it";
  config["sliding_window"] = 16;
  EXPECT_EQ(from_config(config).sliding_window, 16);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(from_config(config).sliding_window, 0);
}

TEST(FamilyConfigTest, TakesTheDefaultsOfTransformers) {
  json config = llama_like("mistral");
  config.erase("num_key_value_heads");
  config["num_attention_heads"] = 16;
  EXPECT_EQ(from_config(config).kv_heads, 8);
  config["num_key_value_heads"] = nullptr;
  EXPECT_EQ(from_config(config).kv_heads, 16);
  config = llama_like("qwen3");
  config.erase("head_dim");
  EXPECT_EQ(from_config(config).head_dim, 128);
}

TEST(FamilyConfigTest, AWindowHoldsForAllLayersOrNone) {
  json config = llama_like("qwen2");
  config["sliding_window"] = 16;
  config["use_sliding_window"] = false;
  EXPECT_EQ(from_config(config).sliding_window, 0);
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 0;
  EXPECT_EQ(from_config(config).sliding_window, 16);
  config["max_window_layers"] = 2;
  EXPECT_EQ(from_config(config).sliding_window, 0);
  config["max_window_layers"] = 1;
  EXPECT_EQ(message_of([&] { from_config(config); }),
            "config.json: 1 of 2 layers have a sliding window; only all or none is supported");
  config["layer_types"] = {"sliding_attention", "sliding_attention"};
  EXPECT_EQ(from_config(config).sliding_window, 16);
  config["layer_types"] = {"sliding_attention", "full_attention"};
  EXPECT_NE(message_of([&] { from_config(config); }), "no error");
  config["layer_types"] = {"sliding_attention", "linear_attention"};
  EXPECT_NE(message_of([&] { from_config(config); }).find("linear_attention"), std::string::npos);
}

// Every choice that a family's file can say comes back from it.
TEST(FamilyConfigTest, WhatIsWrittenIsReadBack) {
  for (const std::string lines :
       {"family = \"llama\"", "family = \"llama\"\nattention_bias = \"all\"\nmlp_bias = true",
        "family = \"mistral\"", "family = \"mistral\"\nsliding_window = 0\nkv_heads = 2",
        "family = \"qwen2\"\nsliding_window = 5", "family = \"qwen2\"\ntied = true",
        "family = \"qwen3\"\nattention_bias = \"all\"", "family = \"gpt2\"\nmax_positions = 300",
        "family = \"gpt2\"\ntied = false", "rope_theta = 5e5\nrope_scaling.type = \"llama3\"",
        "family = \"mixtral\"\nexperts = 4\nrouter_aux_coef = 0.01"}) {
    SCOPED_TRACE(lines);
    RunSpec spec = parse("[model]\n" + lines + "\n" + kShape);
    resolve(spec);
    const auto config = hf_config(spec);
    ASSERT_TRUE(config.has_value());
    RunSpec back = spec;
    back.model = from_config(*config);
    resolve(back);
    EXPECT_EQ(to_json(back), to_json(spec)) << config->dump(2);
  }
}

TEST(FamilyConfigTest, WhatAFileCannotSayIsNotWritten) {
  for (const std::string line : {"norm = \"layer\"", "mlp = \"gelu\"", "qk_norm = true",
                                 "attention_bias = \"qkv\"", "sliding_window = 4"}) {
    RunSpec spec = parse("[model]\n" + line + "\n" + kShape);
    resolve(spec);
    EXPECT_FALSE(hf_config(spec).has_value()) << line;
  }
}

}  // namespace
}  // namespace tessera
