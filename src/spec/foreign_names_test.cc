#include "spec/foreign_names.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "spec/keys.h"
#include "spec/run_file/run_file.h"

namespace tessera {
namespace {

TEST(ForeignNamesTest, NamesOfOtherSystemsMeanKeysOfOurs) {
  EXPECT_EQ(key_called("--tensor-model-parallel-size"), "parallel.tp");
  EXPECT_EQ(key_called("Learning_Rate"), "optimizer.lr");
  EXPECT_EQ(key_called("num_hidden_layers"), "model.layers");
  EXPECT_EQ(key_called("steps"), "train.steps");
  EXPECT_EQ(key_called("train.steps"), "train.steps");
  EXPECT_EQ(key_called("wallpaper"), "");
}

TEST(ForeignNamesTest, EveryAdviceNamesAKeyThatThereIs) {
  for (const std::string_view name : {"tensor_parallel_degree",
                                      "pp_size",
                                      "dp_shard",
                                      "dp_replicate",
                                      "context_parallel_size",
                                      "ep_size",
                                      "zero_stage",
                                      "pipeline_schedule",
                                      "recompute_granularity",
                                      "batch_size",
                                      "global_batch_size",
                                      "seq_length",
                                      "train_iters",
                                      "precision",
                                      "random_seed",
                                      "max_grad_norm",
                                      "beta1",
                                      "adam_eps",
                                      "wd",
                                      "warmup_steps",
                                      "min_learning_rate",
                                      "n_embd",
                                      "d_ff",
                                      "n_head",
                                      "n_kv_heads",
                                      "vocab_size",
                                      "tie_word_embeddings",
                                      "rms_norm_eps",
                                      "rotary_base",
                                      "num_experts",
                                      "moe_router_topk",
                                      "moe_intermediate_size",
                                      "max_position_embeddings",
                                      "model_name_or_path",
                                      "dataset",
                                      "output_dir",
                                      "log_interval",
                                      "num_stages",
                                      "virtual_pipeline_model_parallel_size"}) {
    const std::string key = key_called(name);
    const size_t dot = key.rfind('.');
    ASSERT_NE(dot, std::string::npos) << name;
    EXPECT_NE(find_key(key.substr(0, dot), key.substr(dot + 1)), nullptr) << name << ": " << key;
  }
}

std::string refusal(const std::string& text) {
  try {
    (void)parse_run_file("[model]\npreset = \"gpt2\"\n" + text, "run.toml", {}, nullptr);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ForeignNamesTest, RunFilesAreAnsweredInOurNames) {
  EXPECT_EQ(refusal("[train]\nbatch_size = 8\n"),
            "run.toml:4:1: unknown key 'batch_size' in [train]; here it is train.micro_batch "
            "(sequences of a rank in one pass; of a step: global_batch)");
  EXPECT_EQ(refusal("[optimizer]\nlearning_rate = 1e-4\n"),
            "run.toml:4:1: unknown key 'learning_rate' in [optimizer]; here it is optimizer.lr");
  EXPECT_EQ(refusal("[parallel]\nseq_len = 8\n"),
            "run.toml:4:1: unknown key 'seq_len' in [parallel]; here it is train.seq_len")
      << "a key of ours in another section";
  EXPECT_EQ(refusal("[train]\ndtype = \"bfloat16\"\n"),
            "run.toml:4:9: train.dtype must be one of f32, f64, bf16, f16, fp8, got string "
            "\"bfloat16\"; did you mean 'bf16'?");
  EXPECT_EQ(refusal("[train]\ndevice = \"gpu\"\n"),
            "run.toml:4:10: train.device must be one of cpu, cuda, auto, got string \"gpu\"; did "
            "you mean 'cuda'?");
}

TEST(ForeignNamesTest, NumbersInDisguiseAreUndressed) {
  EXPECT_NE(refusal("[optimizer]\nlr = \"1e-4\"\n").find("; leave out the quotes: 1e-4"),
            std::string::npos);
  EXPECT_NE(refusal("[train]\nsteps = \"4,096\"\n").find("; write 4096"), std::string::npos);
  EXPECT_NE(refusal("[train]\nsteps = \"4 096\"\n").find("; write 4096"), std::string::npos);
  EXPECT_NE(refusal("[parallel]\noverlap = \"yes\"\n").find("; write true"), std::string::npos);
  EXPECT_EQ(refusal("[train]\nsteps = \"many\"\n"),
            "run.toml:4:9: train.steps must be an integer, got string \"many\"");
}

}  // namespace
}  // namespace tessera
