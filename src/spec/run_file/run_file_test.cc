#include "spec/run_file/run_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "spec/run_file/run_source.h"

namespace tessera {
namespace {

using testing::message_of;

constexpr std::string_view kDemo = R"([model]
family = "llama"
layers = 4
hidden = 256
ffn = 688
heads = 8
kv_heads = 4
vocab = 256
tied = true
[parallel]
dp = 2
fsdp = 1
tp = 2
zero = 1
sequence_parallel = true
[train]
seq_len = 256
micro_batch = 2
global_batch = 16
steps = 60
dtype = "f32"
seed = 1
device = "cpu"
[optimizer]
lr = 1e-3
warmup = 10
betas = [0.9, 0.95]
eps = 1e-8
weight_decay = 0.1
clip = 1.0
[data]
synth = { seed = 7, bytes = 4000000 }
[logging]
run_dir = "runs/demo"
)";
constexpr std::string_view kModel =
    "[model]\nlayers = 4\nhidden = 256\nffn = 688\nheads = 8\nvocab = 256\n";

std::string no_files(const std::string& path) { throw ConfigError("cannot read " + path); }

RunSpec parse(std::string_view text, std::vector<std::string> overrides = {},
              const FileReader& reader = no_files) {
  return parse_run_file(text, "run.toml", overrides, reader);
}

std::string failure(std::string_view text, std::vector<std::string> overrides = {},
                    const FileReader& reader = no_files) {
  try {
    parse(text, std::move(overrides), reader);
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "no error";
}

std::string with_model(std::string_view rest) { return std::string(kModel) + std::string(rest); }

std::string mesh_failure(std::string_view mesh) {
  return testing::message_of([&] { parse_mesh(mesh, {}); });
}

TEST(RunFileTest, ReadsTheDemo) {
  const RunSpec spec = parse(kDemo);
  EXPECT_EQ(spec.model.family, ModelFamily::kLlama);
  EXPECT_EQ(spec.model.layers, 4);
  EXPECT_EQ(spec.model.hidden, 256);
  EXPECT_EQ(spec.model.ffn, 688);
  EXPECT_EQ(spec.model.heads, 8);
  EXPECT_EQ(spec.model.kv_heads, 4);
  EXPECT_EQ(spec.model.vocab, 256);
  EXPECT_TRUE(spec.model.tied);
  EXPECT_EQ(spec.parallel.dp, 2);
  EXPECT_EQ(spec.parallel.fsdp, 1);
  EXPECT_EQ(spec.parallel.tp, 2);
  EXPECT_EQ(spec.parallel.zero, 1);
  EXPECT_TRUE(spec.parallel.sequence_parallel);
  EXPECT_EQ(spec.train.seq_len, 256);
  EXPECT_EQ(spec.train.micro_batch, 2);
  EXPECT_EQ(spec.train.global_batch, 16);
  EXPECT_EQ(spec.train.steps, 60);
  EXPECT_EQ(spec.train.dtype, DType::kF32);
  EXPECT_EQ(spec.train.seed, 1U);
  EXPECT_EQ(spec.train.device, TrainDevice::kCpu);
  EXPECT_EQ(spec.optimizer.lr, 1e-3);
  EXPECT_EQ(spec.optimizer.warmup, 10);
  EXPECT_EQ(spec.optimizer.beta1, 0.9);
  EXPECT_EQ(spec.optimizer.beta2, 0.95);
  EXPECT_EQ(spec.optimizer.eps, 1e-8);
  EXPECT_EQ(spec.optimizer.weight_decay, 0.1);
  EXPECT_EQ(spec.optimizer.clip, 1.0);
  EXPECT_EQ(spec.data.path, "");
  EXPECT_EQ(spec.data.synth_seed, 7U);
  EXPECT_EQ(spec.data.synth_bytes, 4'000'000);
  EXPECT_EQ(spec.logging.run_dir, "runs/demo");
}

TEST(RunFileTest, KeysThatAreNotGivenKeepTheirDefaults) {
  const RunSpec spec = parse(kModel);
  EXPECT_EQ(spec.parallel.zero, -1);
  EXPECT_EQ(spec.parallel.grad_reduce, GradReduce::kAuto);
  EXPECT_EQ(spec.optimizer.lr, OptimizerSpec{}.lr);
  EXPECT_EQ(spec.model.rope.scaling, RopeScaling::kDefault);
}

TEST(RunFileTest, UnknownNamesArePlacedAndCorrected) {
  EXPECT_EQ(failure("[model]\nhidden = 256\nffn = 688\nheads = 8\nlayer = 4\n"),
            "run.toml:5:1: unknown key 'layer' in [model]; did you mean 'layers'?");
  EXPECT_EQ(failure("[modle]\nlayers = 4\n"),
            "run.toml:1:2: unknown section 'modle'; did you mean 'model'?");
  EXPECT_EQ(failure("[modle]\n"), "run.toml:1:2: unknown section 'modle'; did you mean 'model'?");
  EXPECT_EQ(failure("steps = 4\n"),
            "run.toml:1:1: unknown section 'steps'; did you mean 'train.steps'?");
  EXPECT_EQ(failure("[data]\nsynth = { sed = 7 }\n"),
            "run.toml:2:11: unknown key 'sed' in [data.synth]; did you mean 'seed'?");
  EXPECT_EQ(failure("[model.rope_scaling]\nfactr = 8\n"),
            "run.toml:2:1: unknown key 'factr' in [model.rope_scaling]; did you mean 'factor'?");
  EXPECT_EQ(failure("[model]\nrope_scalng = { factor = 8 }\n"),
            "run.toml:2:1: unknown key 'rope_scalng' in [model]; did you mean 'rope_scaling'?");
  EXPECT_EQ(failure("[cluster]\nnodes = 4\n"),
            "run.toml:2:1: unknown key 'nodes' in [cluster]; known keys: name, memory_gib");
  EXPECT_EQ(failure("\"model.rope_scaling\" = { factor = 8 }\n").substr(0, 47),
            "run.toml:1:1: unknown section 'model.rope_scali");
}

TEST(RunFileTest, TheFirstMistakeOfTheFileIsReported) {
  EXPECT_EQ(failure("[train]\nstep = 1\n[model]\nlayer = 4\n"),
            "run.toml:2:1: unknown key 'step' in [train]; did you mean 'steps'?");
}

TEST(RunFileTest, WrongTypesNamePlaceKeyAndValue) {
  EXPECT_EQ(failure("[model]\nhidden = 256\nlayers = \"four\"\n"),
            "run.toml:3:10: model.layers must be an integer, got string \"four\"");
  EXPECT_EQ(failure("[model]\nlayers = 4.5\n"),
            "run.toml:2:10: model.layers must be an integer, got number 4.5");
  EXPECT_EQ(failure("[model]\nlayers = [4]\n"),
            "run.toml:2:10: model.layers must be an integer, got an array of 1");
  EXPECT_EQ(failure("[model]\nlayers = { a = 1 }\n"),
            "run.toml:2:10: model.layers must be an integer, got a table");
  EXPECT_EQ(failure("[model]\nlayers = 2020-01-01\n"),
            "run.toml:2:10: model.layers is a date or time; no key takes one");
  EXPECT_EQ(failure("[model]\ntied = 1\n"),
            "run.toml:2:8: model.tied must be true or false, got integer 1");
  EXPECT_EQ(
      failure("[model]\nfamily = 1\n"),
      "run.toml:2:10: model.family must be one of llama, mistral, qwen2, qwen3, gpt2, mixtral, "
      "got integer 1");
  EXPECT_EQ(failure("[optimizer]\nlr = true\n"),
            "run.toml:2:6: optimizer.lr must be a number, got boolean true");
  EXPECT_EQ(failure("[optimizer]\nbetas = [0.9]\n"),
            "run.toml:2:9: optimizer.betas must be an array of two numbers [beta1, beta2], got an "
            "array of 1");
  EXPECT_EQ(failure("[optimizer]\nbetas = [0.9, \"x\"]\n").substr(0, 34),
            "run.toml:2:9: optimizer.betas must");
  EXPECT_EQ(failure("model = 3\n"), "run.toml:1:9: model must be a table, got integer 3");
  EXPECT_NE(failure("[[model]]\nlayers = 4\n").find("model must be a table, got an array of 1"),
            std::string::npos);
  EXPECT_EQ(failure("[data]\nsynth = 5\n"),
            "run.toml:2:9: data.synth must be a table, got integer 5");
  EXPECT_EQ(
      failure("[train]\ndtype = \"fp16\"\n"),
      "run.toml:2:9: train.dtype must be one of f32, f64, bf16, f16, fp8, got string \"fp16\"; did "
      "you mean 'f16'?");
  EXPECT_EQ(failure("[parallel]\ngrad_reduce = \"never\"\n"),
            "run.toml:2:15: parallel.grad_reduce must be one of auto, step, micro_batch, got "
            "string \"never\"");
}

TEST(RunFileTest, IntegersAreAcceptedAsNumbers) {
  EXPECT_EQ(parse(with_model("[optimizer]\nclip = 2\nbetas = [0, 0.5]\n")).optimizer.clip, 2.0);
}

TEST(RunFileTest, NumbersOutOfRangeNameTheRange) {
  EXPECT_EQ(
      failure("[model]\nlayers = -3\n"),
      "run.toml:2:10: model.layers must be an integer from 1 to 1000000000000, got integer -3");
  EXPECT_EQ(
      failure("[model]\nlayers = 0\n"),
      "run.toml:2:10: model.layers must be an integer from 1 to 1000000000000, got integer 0");
  EXPECT_EQ(failure("[model]\nlayers = 1000000000001\n"),
            "run.toml:2:10: model.layers must be an integer from 1 to 1000000000000, got integer "
            "1000000000001");
  EXPECT_EQ(failure("[parallel]\nzero = 4\n"),
            "run.toml:2:8: parallel.zero must be an integer from 0 to 3, got integer 4");
  EXPECT_EQ(failure("[parallel]\nzero = -1\n"),
            "run.toml:2:8: parallel.zero must be an integer from 0 to 3, got integer -1");
  EXPECT_EQ(failure("[parallel]\ndp = 0\n"),
            "run.toml:2:6: parallel.dp must be an integer from 1 to 4096, got integer 0");
  EXPECT_EQ(failure("[train]\nseed = -1\n"),
            "run.toml:2:8: train.seed must be an integer from 0, got integer -1");
  EXPECT_EQ(failure("[optimizer]\nlr = nan\n"),
            "run.toml:2:6: optimizer.lr must be a number above 0 and at most 1000000000000, got "
            "number nan");
  EXPECT_EQ(failure("[optimizer]\nlr = inf\n").substr(0, 40),
            "run.toml:2:6: optimizer.lr must be a num");
  EXPECT_EQ(failure("[optimizer]\nclip = -0.5\n"),
            "run.toml:2:8: optimizer.clip must be a number from 0 to 1000000000000, got number "
            "-0.5");
  EXPECT_EQ(failure("[optimizer]\nbetas = [0.9, 1.0]\n"),
            "run.toml:2:9: optimizer.betas must be a number at least 0 and below 1, got number 1");
}

TEST(RunFileTest, SyntaxErrorsCarryThePosition) {
  EXPECT_TRUE(failure("[model]\nlayers = \n").starts_with("run.toml:2:10: "))
      << failure("[model]\nlayers = \n");
  const std::string twice = failure("[model]\nlayers = 4\nlayers = 5\n");
  EXPECT_TRUE(twice.starts_with("run.toml:3:")) << twice;
  EXPECT_NE(twice.find("layers"), std::string::npos) << twice;
  EXPECT_EQ(failure(std::string((1 << 20) + 1, '#')),
            "run.toml: 1048577 bytes, more than the limit of 1048576");
  EXPECT_NE(failure("a = " + std::string(100'000, '[')), "no error");
}

TEST(RunFileTest, MissingModelFieldsAreListed) {
  EXPECT_EQ(failure("[train]\nsteps = 3\n[model]\nlayers = 4\nheads = 8\n"),
            "run.toml:3:2: [model] is missing hidden, ffn, vocab; give them, or name a preset or "
            "an hf folder");
  EXPECT_EQ(failure(""),
            "run.toml: [model] is missing layers, hidden, ffn, heads, vocab; give them, or name a "
            "preset or an hf folder");
}

TEST(RunFileTest, ExplicitKeysWinOverThePreset) {
  const RunSpec spec = parse("[model]\nlayers = 2\npreset = \"llama-3.2-1b\"\nhidden = 1024\n");
  EXPECT_EQ(spec.model.preset, "llama-3.2-1b");
  EXPECT_EQ(spec.model.layers, 2);
  EXPECT_EQ(spec.model.hidden, 1024);
  EXPECT_EQ(spec.model.head_dim, 0) << "follows hidden / heads";
  EXPECT_EQ(spec.model.ffn, 8192);
  EXPECT_EQ(spec.model.rope.factor, 32.0);
  EXPECT_EQ(
      failure("[model]\npreset = \"llama-3-8\"\n").substr(0, 87),
      "run.toml:2:10: unknown model preset \"llama-3-8\" (did you mean 'llama-3-8b'?); 'tessera ");
}

TEST(RunFileTest, HuggingFaceFoldersAreReadThroughTheReader) {
  std::string asked;
  const FileReader reader = [&](const std::string& path) {
    asked = path;
    return std::string(R"({"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 32,
        "intermediate_size": 88, "num_attention_heads": 4, "vocab_size": 160})");
  };
  const RunSpec spec = parse("[model]\nhf = \"weights/tiny\"\nlayers = 1\n", {}, reader);
  EXPECT_EQ(asked, "weights/tiny/config.json");
  EXPECT_EQ(spec.model.hf, "weights/tiny");
  EXPECT_EQ(spec.model.layers, 1);
  EXPECT_EQ(spec.model.vocab, 160);
  EXPECT_EQ(failure("[model]\nhf = \"nowhere\"\n"),
            "run.toml:2:6: cannot read nowhere/config.json");
}

TEST(RunFileTest, AFolderMayGiveTheModelAlone) {
  const FileReader reader = [](const std::string&) {
    return std::string(R"({"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 32,
        "intermediate_size": 88, "num_attention_heads": 4, "vocab_size": 160})");
  };
  const std::string with_folder = "[model]\nhf = \"weights/tiny\"\n";
  const auto folder_of = [&](const std::string& text, std::vector<std::string> set) {
    const RunSpec spec = parse(text, set, reader);
    EXPECT_EQ(spec.model.layers, 3);
    return spec.model.hf;
  };
  EXPECT_EQ(folder_of(with_folder + "init = \"random\"\n", {}), "");
  EXPECT_EQ(folder_of(with_folder + "init = \"weights\"\n", {}), "weights/tiny");
  EXPECT_EQ(folder_of(with_folder, {"model.init=random"}), "");
  EXPECT_EQ(folder_of(with_folder + "init = \"random\"\n", {"model.init=weights"}), "weights/tiny");
  EXPECT_EQ(failure("[model]\ninit = \"zeros\"\n"),
            "run.toml:2:8: model.init must be \"random\" or \"weights\", got \"zeros\"");
}

TEST(RunFileTest, AlternativesExcludeEachOther) {
  EXPECT_EQ(failure("[model]\npreset = \"tiny-3m\"\nhf = \"x\"\n"),
            "run.toml:3:1: model.preset and model.hf exclude each other; keep one of them");
  EXPECT_EQ(failure(with_model("[data]\nsynth = { seed = 1 }\npath = \"x\"\n")),
            "run.toml:9:1: data.path and data.synth exclude each other; keep one of them");
  EXPECT_EQ(failure(kModel, {"data.path=x", "data.synth.seed=3"}),
            "--set data.synth.seed=3: data.path and data.synth exclude each other; keep one of "
            "them");
  // An override replaces what the file says instead.
  EXPECT_EQ(parse(kDemo, {"data.path=x.txt"}).data.path, "x.txt");
  const RunSpec synthetic = parse(with_model("[data]\npath = \"x\"\n"), {"data.synth.seed=3"});
  EXPECT_EQ(synthetic.data.path, "");
  EXPECT_EQ(synthetic.data.synth_seed, 3U);
}

TEST(RunFileTest, RopeScalingNeedsItsType) {
  EXPECT_EQ(failure(with_model("rope_scaling = { factor = 8 }\n")),
            "run.toml:7:1: model.rope_scaling needs type = \"llama3\"");
  const RunSpec spec = parse(with_model(
      "rope_theta = 5e5\nrope_scaling = { type = \"llama3\", factor = 8, low_freq_factor = 2, "
      "high_freq_factor = 5.5, original_max_position = 4096 }\n"));
  EXPECT_EQ(spec.model.rope.theta, 5e5);
  EXPECT_EQ(spec.model.rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(spec.model.rope.factor, 8);
  EXPECT_EQ(spec.model.rope.low_freq_factor, 2);
  EXPECT_EQ(spec.model.rope.high_freq_factor, 5.5);
  EXPECT_EQ(spec.model.rope.original_max_position, 4096);
  EXPECT_EQ(failure("[model.rope_scaling]\ntype = \"yarn\"\n"),
            "run.toml:2:8: model.rope_scaling.type must be one of default, llama3, got string "
            "\"yarn\"");
}

TEST(RunFileTest, OverridesWinAndMayBeBareWords) {
  const RunSpec spec = parse(
      kDemo, {"train.steps=3", "train.steps = 5", "logging.run_dir=runs/a=b#c", "train.dtype=bf16",
              "optimizer.betas=[0.5, 0.6]", "data.synth={seed=9, bytes=10}", "model.tied=false",
              "model.rope_scaling.type=\"llama3\""});
  EXPECT_EQ(spec.train.steps, 5);
  EXPECT_EQ(spec.logging.run_dir, "runs/a=b#c");
  EXPECT_EQ(spec.train.dtype, DType::kBF16);
  EXPECT_EQ(spec.optimizer.beta2, 0.6);
  EXPECT_EQ(spec.data.synth_seed, 9U);
  EXPECT_EQ(spec.data.synth_bytes, 10);
  EXPECT_FALSE(spec.model.tied);
  EXPECT_EQ(spec.model.rope.scaling, RopeScaling::kLlama3);
}

TEST(RunFileTest, OverrideMistakesNameTheOverride) {
  EXPECT_EQ(failure(kDemo, {"train.steps=abc"}),
            "--set train.steps=abc: train.steps must be an integer, got string \"abc\"");
  EXPECT_EQ(failure(kDemo, {"train.step=3"}),
            "--set train.step=3: unknown key 'step' in [train]; did you mean 'steps'?");
  EXPECT_EQ(failure(kDemo, {"trian.steps=3"}),
            "--set trian.steps=3: unknown section 'trian'; did you mean 'train.steps'?");
  EXPECT_EQ(failure(kDemo, {"steps=3"}),
            "--set steps=3: unknown section 'steps'; did you mean 'train.steps'?");
  EXPECT_EQ(failure(kDemo, {"train.steps"}), "--set train.steps: write it as section.key=value");
  EXPECT_EQ(failure(kDemo, {"=3"}), "--set =3: the key is missing; write section.key=value");
  EXPECT_EQ(failure(kDemo, {"train.steps="}),
            "--set train.steps=: train.steps must be an integer, got string \"\"");
  EXPECT_NE(failure(kDemo, {"train.steps=1\nother=2"}).find("must be an integer, got string"),
            std::string::npos);
  EXPECT_EQ(failure(kDemo, {"parallel.zero=9"}),
            "--set parallel.zero=9: parallel.zero must be an integer from 0 to 3, got integer 9");
  EXPECT_EQ(failure(kDemo, {"data.synth.byte=9"}),
            "--set data.synth.byte=9: unknown key 'byte' in [data.synth]; did you mean 'bytes'?");
}

TEST(RunFileTest, CountsAreWrittenAsPeopleSayThem) {
  const RunSpec spec = parse(
      "[model]\npreset = \"llama-3-8b\"\n[train]\nseq_len = \"8k\"\nsteps = 1e3\nglobal_batch = "
      "\"2k\"\n");
  EXPECT_EQ(spec.train.seq_len, 8192) << "lengths go by powers of two";
  EXPECT_EQ(spec.train.steps, 1000);
  EXPECT_EQ(spec.train.global_batch, 2000);
  const RunSpec set = parse(kDemo, {"train.seq_len=128k", "train.steps=1.5k"});
  EXPECT_EQ(set.train.seq_len, 131'072);
  EXPECT_EQ(set.train.steps, 1500);
  EXPECT_EQ(parse_mesh("dp=2k", {}).dp, 2000);
}

TEST(RunFileTest, ABatchInTokensIsCountedInSequences) {
  const auto batch = [](const std::string& text, std::vector<std::string> set = {}) {
    set.insert(set.begin(), "model.preset=llama-3-8b");
    return parse(text, set).train.global_batch;
  };
  EXPECT_EQ(batch("[train]\nglobal_batch = \"4Mitok\"\nseq_len = 4096\n"), 1024);
  EXPECT_EQ(batch("[train]\nglobal_batch = \"4Mi tokens\"\nseq_len = 4096\n", {"train.seq_len=8k"}),
            512)
      << "of the length that holds in the end";
  EXPECT_EQ(batch("", {"train.global_batch=256000tok"}), 1000) << "of the default length";
  EXPECT_EQ(failure(kDemo, {"train.global_batch=4Mtok", "train.seq_len=4k"}),
            "--set train.global_batch=4Mtok: train.global_batch is 4,000,000 tokens, which are no "
            "whole number of sequences of 4,096 tokens: use 3997696tok (976 sequences) or "
            "4001792tok (977 sequences) or 4Mitok (1,024 sequences)");
  EXPECT_NE(failure(kDemo, {"train.global_batch=0tok"}).find("at least one sequence"),
            std::string::npos);
}

TEST(RunFileTest, AClusterIsNamedForThosePlanning) {
  const std::string text = std::string(kDemo) + "\n[cluster]\nname = \"a100-256\"\n";
  EXPECT_NO_THROW(parse(text)) << "train passes over it";
  EXPECT_EQ(named_cluster(text, "run.toml", {}), "a100-256");
  const std::vector<Setting> set = {setting_of_set("cluster.name=h100-8")};
  EXPECT_EQ(named_cluster(text, "run.toml", set), "h100-8");
  EXPECT_EQ(named_cluster(kDemo, "run.toml", {}), "");
  EXPECT_EQ(failure("[cluster]\nname = 3\n"),
            "run.toml:2:8: cluster.name must be a string, got integer 3");
}

TEST(RunSourceTest, TwoWaysThatContradictEachOtherAreRefused) {
  const auto refusal = [](const std::string& mesh, const std::vector<Setting>& flags,
                          const std::vector<std::string>& set) {
    RunSource source;
    source.mesh = mesh;
    source.flags = flags;
    source.overrides = set;
    return message_of([&] { static_cast<void>(source.settings()); });
  };
  const Setting tp4{"parallel.tp=4", "--tp 4"};
  EXPECT_EQ(refusal("tp=8,dp=8", {tp4}, {}),
            "--tp 4 and --mesh tp=8,dp=8 say different values of parallel.tp, 4 and 8: keep one of "
            "them");
  EXPECT_EQ(refusal("dp=8", {tp4}, {}),
            "--tp 4 and --mesh dp=8 (an axis that it does not name is 1) say different values of "
            "parallel.tp, 4 and 1: keep one of them");
  EXPECT_EQ(refusal("", {tp4}, {"parallel.tp=2"}),
            "--tp 4 and --set parallel.tp=2 say different values of parallel.tp, 4 and 2: keep one "
            "of them");
  EXPECT_NE(refusal("tp=2,zero=1", {}, {"parallel.zero=3"}), "no error");
  EXPECT_EQ(refusal("tp=4,dp=2", {tp4}, {"parallel.tp=4"}), "no error") << "they agree";
  EXPECT_EQ(refusal("tp=4,dp=2", {}, {"parallel.zero=1"}), "no error");
  EXPECT_EQ(refusal("", {}, {"train.steps=1", "train.steps=2"}), "no error") << "the last counts";
  EXPECT_EQ(refusal("", {{"train.steps=1000", "--steps 1k"}}, {"train.steps=1e3"}), "no error")
      << "the same number";
}

TEST(MeshTest, UnnamedAxesBecomeOneAndTheRestIsKept) {
  ParallelSpec base;
  base.dp = 4;
  base.fsdp = 8;
  base.zero = 2;
  base.bucket_mb = 3;
  base.sequence_parallel = true;
  const ParallelSpec mesh = parse_mesh("dp=2, tp = 2", base);
  EXPECT_EQ(mesh.dp, 2);
  EXPECT_EQ(mesh.tp, 2);
  EXPECT_EQ(mesh.fsdp, 1);
  EXPECT_EQ(mesh.world(), 4);
  EXPECT_EQ(mesh.zero, 2);
  EXPECT_EQ(mesh.bucket_mb, 3);
  EXPECT_TRUE(mesh.sequence_parallel);
  EXPECT_EQ(parse_mesh("tp=2", {}).zero, -1);
}

TEST(MeshTest, MayNameEveryKeyOfParallel) {
  const ParallelSpec mesh = parse_mesh("fsdp=2,zero=3,sequence_parallel=true,grad_reduce=step", {});
  EXPECT_EQ(mesh.fsdp, 2);
  EXPECT_EQ(mesh.zero, 3);
  EXPECT_TRUE(mesh.sequence_parallel);
  EXPECT_EQ(mesh.grad_reduce, GradReduce::kStep);
}

TEST(MeshTest, MistakesNameThePiece) {
  EXPECT_EQ(mesh_failure("dp=2,tq=2"),
            "mesh 'dp=2,tq=2', piece 'tq=2': unknown key 'tq' in [parallel]; did you mean 'tp'?");
  EXPECT_EQ(mesh_failure("dp=2,tp=two"),
            "mesh 'dp=2,tp=two', piece 'tp=two': parallel.tp must be an integer, got string "
            "\"two\"");
  EXPECT_EQ(mesh_failure("dp=0"),
            "mesh 'dp=0', piece 'dp=0': parallel.dp must be an integer from 1 to 4096, got integer "
            "0");
  EXPECT_EQ(mesh_failure("dp=2,dp=3"), "mesh 'dp=2,dp=3', piece 'dp=3': 'dp' is given twice");
  EXPECT_EQ(mesh_failure("dp=2,,tp=2"),
            "mesh 'dp=2,,tp=2': '' is not key=value; write for example dp=2,tp=2");
  EXPECT_EQ(mesh_failure("dp"), "mesh 'dp': 'dp' is not key=value; write for example dp=2,tp=2");
  EXPECT_EQ(mesh_failure("dp=2 tp=2"),
            "mesh 'dp=2 tp=2': 'dp=2 tp=2' is more than one key=value; put commas between them, as "
            "in dp=2,tp=2");
  EXPECT_EQ(mesh_failure("=2"), "mesh '=2': '=2' is not key=value; write for example dp=2,tp=2");
  EXPECT_EQ(mesh_failure("").substr(0, 9), "mesh '': ");
}

TEST(RunFileTest, SetsOfTokensAreNamedOneOrMixed) {
  const RunSpec one = parse(kModel, {"data.train=set", "data.valid=other", "data.tokenizer=t"});
  EXPECT_TRUE(one.data.is_sets());
  EXPECT_EQ(one.data.train, "set");
  ASSERT_EQ(one.data.valid.size(), 1U);
  EXPECT_EQ(one.data.valid[0].name, "");
  EXPECT_EQ(one.data.valid[0].path, "other");
  EXPECT_EQ(one.data.tokenizer, "t");
  RunSpec mixed = parse(kModel, {"data.mix=[{path=\"a\", weight=0.7}, {path=\"b\"}]"});
  ASSERT_EQ(mixed.data.mix.size(), 2U);
  EXPECT_EQ(mixed.data.mix[0].path, "a");
  EXPECT_EQ(mixed.data.mix[0].weight, 0.7);
  EXPECT_EQ(mixed.data.mix[1].weight, 1);
  mixed.parallel.zero = 0;
  const RunSpec again = parse_run_file(to_toml(mixed), "again.toml", {}, nullptr);
  EXPECT_EQ(to_json(again).at("data"), to_json(mixed).at("data"));
  EXPECT_EQ(to_json(run_spec_from_json(to_json(mixed))), to_json(mixed));
}

using NamedPaths = std::vector<std::pair<std::string, std::string>>;

NamedPaths valid_sets(const std::string& said) {
  RunSpec spec = parse(kModel, {"data.valid=" + said});
  spec.parallel.zero = 0;
  // Whoever reads what was written reads the same.
  const RunSpec again = parse_run_file(to_toml(spec), "again.toml", {}, nullptr);
  EXPECT_EQ(to_json(again).at("data"), to_json(spec).at("data"));
  EXPECT_EQ(to_json(run_spec_from_json(to_json(spec))), to_json(spec));
  NamedPaths sets;
  for (const ValidSet& set : spec.data.valid) sets.emplace_back(set.name, set.path);
  return sets;
}

TEST(RunFileTest, SetsOfAnEvaluationHaveNames) {
  EXPECT_EQ(valid_sets("a/b"), (NamedPaths{{"", "a/b"}}));
  EXPECT_EQ(valid_sets("{docs=\"x\", code=\"y\"}"), (NamedPaths{{"code", "y"}, {"docs", "x"}}));
  EXPECT_EQ(valid_sets("{docs=\"x\"}"), (NamedPaths{{"docs", "x"}}));
  EXPECT_EQ(valid_sets("[\"s/docs/\", \"s/code\"]"),
            (NamedPaths{{"code", "s/code"}, {"docs", "s/docs/"}}));
  EXPECT_EQ(valid_sets("[\"b/valid\", \"a/valid\"]"),
            (NamedPaths{{"a/valid", "a/valid"}, {"b/valid", "b/valid"}}));
  EXPECT_EQ(valid_sets(""), NamedPaths());
  for (const char* said : {"[]", "{}", "3", "[3]", "[\"\"]", "{docs=\"\"}", "{docs=[\"a\"]}"}) {
    EXPECT_NE(failure(kModel, {std::string("data.valid=") + said})
                  .find("data.valid must be the path of a set, an array of paths, or a table"),
              std::string::npos)
        << said << ": " << failure(kModel, {std::string("data.valid=") + said});
  }
  EXPECT_NE(failure(kModel, {"data.valid=[\"a\", \"a\"]"}).find("all different"),
            std::string::npos);
}

TEST(RunFileTest, RefusesMixturesThatAreNone) {
  EXPECT_EQ(failure(kModel, {"data.mix=[]"}).substr(0, 49),
            "--set data.mix=[]: data.mix names no set; write f");
  for (const char* mix : {"[3]", "set", "[{weight=2}]", "[{path=\"a\", wieght=2}]",
                          "[{path=\"a\", weight=0}]", "[{path=\"\"}]"}) {
    EXPECT_NE(
        failure(kModel, {std::string("data.mix=") + mix}).find("data.mix must be an array of"),
        std::string::npos)
        << mix << ": " << failure(kModel, {std::string("data.mix=") + mix});
  }
  EXPECT_EQ(
      failure(kModel, {"data.train=x", "data.mix=[{path=\"a\"}]"}),
      "--set data.mix=[{path=\"a\"}]: data.train and data.mix exclude each other; keep one of "
      "them");
}

}  // namespace
}  // namespace tessera
