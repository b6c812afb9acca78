// What a new user types by mistake, and that the answer says what to type instead.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "in_process.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

// Refused as a mistake, in one line that has all of `parts`.
void expect_answer(const Words& args, const Words& parts) {
  const Ended ended = run_in_process(args);
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_EQ(ended.out, "");
  EXPECT_EQ(ended.err.find('\n'), ended.err.size() - 1) << ended.err;
  for (const std::string& part : parts) {
    EXPECT_NE(ended.err.find(part), std::string::npos) << part << "\nis not in: " << ended.err;
  }
}

class MistakesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tessera-mistakes-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  [[nodiscard]] std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }

  fs::path folder_;
};

const std::string kRun = TESSERA_SOURCE_DIR "/examples/demo.toml";
const Words kPlan = {"plan", "--model", "gpt2", "--cluster", "h100-8"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(MistakesTest, FlagsOfOtherSystemsAreTranslated) {
  expect_answer(with(kPlan, {"--tensor-model-parallel-size", "8"}),
                {"unknown option '--tensor-model-parallel-size'; here it is --tp "});
  expect_answer(with(kPlan, {"--zero-stage", "2"}), {"here it is --zero "});
  expect_answer({"train", kRun, "--micro-batch-size", "4"},
                {"here it is --set train.micro_batch=VALUE"});
  expect_answer({"train", kRun, "--lr=1e-3"}, {"here it is --set optimizer.lr=VALUE"});
  expect_answer({"train", kRun, "--train.steps", "5"}, {"here it is --set train.steps=VALUE"});
  expect_answer({"train", "--config", kRun},
                {"the run file goes without a flag: tessera train RUN.toml"});
  expect_answer({"train", kRun, "--nproc_per_node", "4"}, {"--mesh dp=4"});
  expect_answer({"generate", "--run", "x", "--prompt", "y", "--max-new-tokens", "9"},
                {"here it is --tokens"});
  expect_answer({"plan", kRun, "--no-sequence-parallel"},
                {"to turn it off: --set parallel.sequence_parallel=false"});
  expect_answer({"explain", "bubble", "--stages", "4"}, {"unknown option '--stages'; there is --"});
}

TEST_F(MistakesTest, FlagsOfOtherServersAreTranslated) {
  const Words serve = {"serve", "x"};
  for (const auto& [flag, part] : std::vector<std::pair<Words, std::string>>{
           {{"--tensor-parallel-size", "2"}, "here it is --mesh tp=N"},
           {{"--pipeline-parallel-size=2"}, "here it is --mesh pp=N"},
           {{"--data-parallel-size", "2"}, "here it is --mesh dp=N"},
           {{"--enable-expert-parallel"}, "here it is --mesh ep=N"},
           {{"--max-model-len", "2048"}, "here it is --max-context"},
           {{"--max-num-seqs", "8"}, "here it is --max-sequences"},
           {{"--max-num-batched-tokens", "8"}, "here it is --token-budget"},
           {{"--gpu-memory-utilization", "0.9"}, "--memory-gib X"},
           {{"--served-model-name", "m"}, "here it is --name"},
           {{"--block-size", "16"}, "here it is --page"},
           {{"--api-key", "k"}, "seen by others: --api-key-file FILE"},
           {{"--enable-prefix-caching"}, "without a flag"},
           {{"--swap-space", "4"}, "nothing is moved out of memory"},
           {{"--quantization", "awq"}, "f32, bf16 or f64"},
           {{"--ssl-keyfile", "k"}, "there is no TLS here"},
           {{"--model", "m"}, "the model goes without a flag: tessera serve DIR"},
           {{"--trust-remote-code"}, "no code of a model's folder is ever run"},
           {{"-ngl", "99"}, "on CPUs as yet"}}) {
    expect_answer(with(serve, flag), {"unknown option '-", part});
  }
  const std::string url = "http://127.0.0.1:1";
  expect_answer({"bench", "serve", "--base-url", url}, {"here it is --target http://HOST:PORT"});
  expect_answer({"bench", "serve", "--num-prompts", "5"}, {"here it is --requests"});
  expect_answer({"bench", "serve", "--request-rate", "5"}, {"here it is --rate"});
  expect_answer({"bench", "serve", "--max-model-len", "5"}, {"unknown option"});
  expect_answer({"bench", "decode", "--random", "none"}, {"error: --random none: unknown model"});
  expect_answer({"bench", "decode", "--shape", "foo=1"}, {"error: --shape foo=1: unknown key"});
}

TEST_F(MistakesTest, WordsOfLlamaCppAndOllamaAreTranslated) {
  const Words generate = {"generate", "--run", "x", "--prompt", "y"};
  for (const auto& [flag, part] : std::vector<std::pair<Words, std::string>>{
           {{"-m", "x"}, "here it is --run DIR, which takes a run, a checkpoint or a Hugging Face"},
           {{"-p", "x"}, "here it is --prompt"},
           {{"-n", "5"}, "here it is --tokens"},
           {{"--n-predict", "5"}, "here it is --tokens"},
           {{"--ctx-size", "5"}, "here it is --max-context"},
           {{"-c", "5"}, "here it is --max-context"},
           {{"--temp", "5"}, "here it is --temperature"},
           {{"-t", "2"}, "here it is --threads"},
           {{"--repeat-penalty", "1.1"}, "take penalties"},
           {{"--do-sample"}, "--temperature 0 takes the most likely token"},
           {{"--num-return-sequences", "2"}, "a request of --in takes \"n\""}}) {
    expect_answer(with(generate, flag), {"unknown option '" + flag.front() + "'; ", part});
  }
  expect_answer({"chat", "-m", "x"}, {"the model goes without a flag: tessera chat DIR"});
  expect_answer({"chat", "x", "--num-ctx", "5"}, {"here it is --max-context"});
  expect_answer({"chat", "x", "--prompt", "hi"}, {"echo TEXT | tessera chat DIR"});
}

TEST_F(MistakesTest, FlagsOfOtherDataToolsAreTranslated) {
  const Words prepare = {"data", "prepare", "x", "--tokenizer", "y", "--out", "z"};
  expect_answer(with(prepare, {"--workers", "4"}), {"here it is --threads"});
  expect_answer(with(prepare, {"--json-keys", "text"}), {"here it is --key"});
  expect_answer(with(prepare, {"--append-eod"}), {"each document ends with --end TOKEN"});
  expect_answer({"data", "prepare", "--input", "x"}, {"files and folders go without a flag"});
  expect_answer({"eval", "--run", "x"}, {"the model goes without a flag: tessera eval DIR"});
  expect_answer({"eval", "x", "--tasks", "y"}, {"here it is --data FILE"});
  expect_answer({"export-hf", "x", "--out", "y"}, {"tessera export-hf RUN OUT"});
  expect_answer({"checkpoint", "list", "x"}, {"here it is 'tessera checkpoint ls'"});
  expect_answer({"checkpoint", "rm", "x"}, {"remove it as one"});
  expect_answer({"data", "tokenizer", "x.txt"}, {"'tessera data tokenizer train TEXT --out DIR'"});
}

TEST_F(MistakesTest, ValuesOfTextCommandsAreNamedWithTheirFlag) {
  const std::string tokenizer = TESSERA_SOURCE_DIR "/tests/data/tokenizers/gpt2";
  const std::string text = file("text.txt", "Once upon a time.\n");
  const std::string taken = file("taken", "");
  expect_answer(
      {"data", "prepare", text, "--tokenizer", tokenizer, "--end", "<|end|>", "--out", taken},
      {"cannot make folder '" + taken, "choose another place for --out"});
  expect_answer({"data", "tokens", "x", "--tokenizer", path("none")},
                {"cannot read tokenizer '" + path("none"), "name a folder with a tokenizer.json"});
  expect_answer({"data", "samples", kRun, "--steps", "5..1"}, {"--steps is '5..1'"});
  expect_answer({"data", "chat", text, "--template", tokenizer + "/../../templates/chatml.jinja"},
                {"text.txt:1: a conversation is one line of JSON"});
  for (const Words& words :
       {Words{"serve", "gpt2"}, Words{"chat", "gpt2"}, Words{"eval", "gpt2", "--data", text}}) {
    expect_answer(words, {"'gpt2' does not exist", "a preset has a shape and no weights"});
  }
  expect_answer({"serve", TESSERA_SOURCE_DIR "/tests/data/hf/llama-gqa", "--tokenizer", path("no")},
                {"--tokenizer is '" + path("no") + "', which does not exist"});
}

TEST_F(MistakesTest, CommandsByOtherNamesAreTranslated) {
  expect_answer({"run", "x.toml"}, {"unknown command 'run'; here it is 'tessera train'"});
  expect_answer({"x.toml"}, {"'tessera plan x.toml' shows what it needs"});
  expect_answer({"x.toml", "train"}, {"it goes after the command: tessera train x.toml"});
  expect_answer({"data", "tokenize"}, {"'tessera data tokens' shows the tokens of a text"});
  expect_answer({"bench", "published"}, {"FILE is missing: tessera bench published FILE"});
}

TEST_F(MistakesTest, WordsInTheWrongPlaceAreToldTheirOwn) {
  expect_answer({"plan", kRun, "--mesh", "dp=2", "tp=2"},
                {"unexpected argument 'tp=2'; write --tp 2"});
  expect_answer({"train", kRun, "train.steps=5"}, {"a key is changed by --set train.steps=5"});
  expect_answer({"plan", "tp=8"}, {"cannot open 'tp=8'", "--set parallel.tp=8"});
  expect_answer({"plan", "llama-3-8b"}, {"it is a model: --model llama-3-8b --cluster h100-8"});
  expect_answer({"train", "GPT2"}, {"it is a model: write a run file with preset = \"gpt2\""});
  expect_answer({"generate", "--run", "x", "--prompt", "Once", "upon"},
                {"unexpected argument 'upon'", "between quotes"});
  expect_answer({"search", kRun}, {"it takes no run file"});
  expect_answer({"plan", kRun, kRun}, {"one run file at a time"});
  expect_answer({"explain", "memory", "--memory", "80", "GB"}, {"spaces goes between quotes"});
  expect_answer(with(kPlan, {"--rank", "1"}), {"add --program"});
}

TEST_F(MistakesTest, WhatWasPastedFromAPageIsTypedAgain) {
  expect_answer({"plan", "—model", "gpt2"},
                {"'—model' has a long dash (U+2014)", "type --model\n"});
  expect_answer({"plan", "–-model", "gpt2"}, {"(U+2013)", "type --model\n"});
  expect_answer({"data", "synth", "–o", "x"}, {"type -o\n"});
  expect_answer({"plan", "--model", "“gpt2”"}, {"a typographic quote (U+201C)", "type \"gpt2\""});
  expect_answer({"plan", "--model=“gpt2”"}, {"type --model=\"gpt2\""});
  expect_answer({"plan", "--tp\u00a08"}, {"a space that does not break (U+00A0)", "type --tp 8"});
  const Ended any = run_in_process({"generate", "--run", path("none"), "--prompt", "— “Well,”"});
  EXPECT_NE(any.err.find("does not exist"), std::string::npos) << "a prompt is any text";
  file("a—b.toml", "");
  EXPECT_NE(run_in_process({"plan", path("a—b.toml")}).err.find("[model] is missing"),
            std::string::npos)
      << "a file may be called so";
}

TEST_F(MistakesTest, NamesOfTheHubAreNotFetched) {
  expect_answer({"plan", "--model", "meta-llama/Llama-3.1-8B", "--cluster", "h100-8"},
                {"nothing is fetched from the Hub", "did you mean 'llama-3.1-8b'?"});
  expect_answer(
      {"plan", "--model", "https://huggingface.co/Qwen/Qwen2.5-7B", "--cluster", "h100-8"},
      {"nothing is fetched from the Hub", "'qwen2.5-7b'"});
  expect_answer({"plan", "--model", "Mixtral-8x7B-Instruct-v0.1", "--cluster", "h100-8"},
                {"did you mean 'mixtral-8x7b'?"});
  expect_answer({"verify", "--hf", "gpt2"}, {"a preset has a shape and no weights"});
  expect_answer({"train", kRun, "--set", "model.hf=openai/gpt2-large"},
                {"--set model.hf=openai/gpt2-large", "nothing is fetched", "'gpt2-large'"});
}

TEST_F(MistakesTest, ClustersAndModelsAreToldApart) {
  for (const std::string name : {"h100x64", "h100:64", "h100-64gpus", "64-h100"}) {
    expect_answer({"plan", "--model", "gpt2", "--cluster", name},
                  {"unknown cluster \"" + name + "\" (did you mean 'h100-64'?)"});
  }
  expect_answer({"plan", "--cluster", "gpt2", "--model", "h100-64"},
                {"unknown cluster \"gpt2\": it is a model, --model gpt2"});
  expect_answer({"plan", "--model", kRun, "--cluster", "h100-8"},
                {"belongs in a run file, and this is read as a model"});
  expect_answer({"plan", "--model", "gpt2", "--cluster", kRun}, {"belongs in a run file"});
  expect_answer({"explain", "memory", "--device", "NVIDIA A100-SXM4-80GB"}, {"'a100-80'"});
}

TEST_F(MistakesTest, FoldersAndStreamsAreNoRunFiles) {
  expect_answer({"plan", path("")}, {"is a folder: name a file\n"});
  file("b.toml", "");
  file("a.toml", "");
  expect_answer({"plan", folder_.string()},
                {"is a folder: name a file, such as '" + path("a.toml")});
  file("config.json", "{}");
  expect_answer({"plan", folder_.string()}, {"a Hugging Face folder is a model, --model"});
  file("resolved.toml", "");
  expect_answer({"train", folder_.string()},
                {"the run file of this run is '" + path("resolved.toml") + "'"});
  expect_answer({"plan", "-"}, {"'-' is a stream"});
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  expect_answer({"plan", path("pipe")}, {"is a stream", "write it to a file"});
  expect_answer({"plan", "C:\\runs\\mine.toml"}, {"write the path with /"});
}

TEST_F(MistakesTest, EmptyValuesAreUnsetVariables) {
  for (const Words& words :
       {Words{"plan", kRun, "--mesh", ""}, Words{"plan", kRun, "--cluster", ""},
        Words{"plan", kRun, "--set", ""}, Words{"plan", kRun, "--tp", ""},
        Words{"train", kRun, "--log-dir", ""}}) {
    expect_answer(words, {words[2] + " is '': give it a value", "variable of the shell"});
  }
}

TEST_F(MistakesTest, NumbersWithoutOrWithUnits) {
  expect_answer({"explain", "memory", "--memory", "80"},
                {"--memory is \"80\", a number without its unit: write it as in 80GB"});
  expect_answer({"explain", "ring", "--bandwidth", "400"}, {"without its unit"});
  expect_answer({"explain", "memory", "--params", "70"}, {"write it as in 70B"});
  EXPECT_EQ(run_in_process({"explain", "ring", "--bytes", "1000", "--ranks", "2"}).code, 0);
  const Words search = {"search",         "--model", "gpt2",      "--cluster", "h100-8",
                        "--global-batch", "64",      "--seq-len", "1024"};
  expect_answer(with(search, {"--deadline", "30d", "--tokens", "1T"}), {"without a unit: 30"});
  expect_answer(with(search, {"--deadline", "48h", "--tokens", "1T"}), {"without a unit: 2\n"});
  expect_answer(with(search, {"--usd-per-hour", "$2"}), {"without a unit: 2"});
  expect_answer({"train", kRun, "--max-minutes", "2h"}, {"without a unit: 120\n"});
  expect_answer({"train", kRun, "--grace", "1500ms"}, {"without a unit: 1.5\n"});
  expect_answer({"metrics", "x", "--smooth", "90%"}, {"write 0.9"});
  expect_answer({"data", "synth", "--bytes", "1e18"}, {"expected bytes, from 1 to 16000000000"});
  EXPECT_EQ(run_in_process({"data", "synth", "--bytes", "1kB"}).out.size(), 1000U);
  expect_answer(with(kPlan, {"--tokens", "0"}), {"expected a whole number from 1"});
  expect_answer(with(kPlan, {"--seq-len", "4,096"}), {"; write 4096"});
  expect_answer(with(kPlan, {"--tp", "2,4"}), {"'tessera plan --vary parallel.tp=2,4'"});
}

TEST_F(MistakesTest, ChoicesAreTakenInAnyCaseAndGuessed) {
  EXPECT_EQ(run_in_process(with(kPlan, {"--emit", "Megatron"})).code, 0);
  expect_answer(with(kPlan, {"--emit", "megatron-lm"}), {"did you mean 'megatron'?"});
  expect_answer({"presets", "model"}, {"did you mean 'models'?"});
  expect_answer({"bench", "step", kRun, "--device", "gpu"}, {"did you mean 'cuda'?"});
  expect_answer({"bench", "comm", "--dtype", "float32"}, {"did you mean 'f32'?"});
  expect_answer({"plan", kRun, "--json=maybe"}, {"--json is a switch: write it without a value"});
  EXPECT_EQ(run_in_process({"plan", kRun, "--json=false"}).out.find('{'), std::string::npos);
}

TEST_F(MistakesTest, ASearchSaysAllThatIsMissingAtOnce) {
  expect_answer({"search", "--model", "gpt2"},
                {"no cluster, no batch, no sequence length given: add --cluster h100-64 "
                 "--global-batch 512 --seq-len 8192"});
  const Words search = {"search",         "--model", "gpt2",      "--cluster", "h100-8",
                        "--global-batch", "64",      "--seq-len", "1024"};
  expect_answer(with(search, {"--tp", "3"}), {"--tp 3: 3 ranks do not divide the 8 devices"});
  expect_answer(with(search, {"--tp", "16"}), {"--tp is 16, more than the 8 devices of h100-8"});
  expect_answer(with(search, {"--pp", "4", "--dp", "4"}), {"--pp 4 --dp 4: 16 ranks do not"});
  expect_answer(with(search, {"--threads", "100000"}), {"--threads is 100000: use 1 to 256"});
}

TEST_F(MistakesTest, OutputsAreLookedAtBeforeTheWork) {
  const std::string run = file("mine.toml", "[model]\npreset = \"tiny-3m\"\n");
  expect_answer({"plan", run, "--svg", path("none/x.svg")},
                {"--svg is '" + path("none/x.svg"), "there is no folder", "make it"});
  expect_answer({"simulate", run, "--trace", path("none/x.json")}, {"there is no folder"});
  expect_answer({"plan", run, "--svg", folder_.string()},
                {"which is a folder: name a file, such as " + path("picture.svg")});
  expect_answer({"plan", run, "--svg", path("x.png")}, {"choose a name that ends in .svg"});
  expect_answer({"simulate", run, "--trace", path("x.svg")}, {"ends in .json"});
  expect_answer({"search", "--model", "gpt2", "--cluster", "h100-8", "--global-batch", "64",
                 "--seq-len", "1024", "--out", run},
                {"--out is '" + run, "is no folder"});
  expect_answer({"data", "synth", "-o", path("none/x.txt")}, {"--output is", "there is no folder"});
  expect_answer({"help", "--man", run}, {"is no folder"});
  EXPECT_FALSE(fs::exists(path("x.png")));
}

TEST_F(MistakesTest, NoFileOfAnotherKindIsWrittenOver) {
  const std::string text = "[model]\npreset = \"tiny-3m\"\n";
  const std::string run = file("mine.toml", text);
  const std::string bare = file("notes", "mine");
  for (const Words& words :
       {Words{"plan", run, "--svg", run}, Words{"plan", run, "--placements", run},
        Words{"simulate", run, "--svg", run}, Words{"simulate", run, "--trace", run},
        Words{"simulate", run, "--schedule-only", "--csv", run},
        Words{"train", run, "--dry-run", "--trace", run}, Words{"data", "synth", "-o", run},
        Words{"metrics", "x", "--svg", run}, Words{"metrics", "x", "--csv", run},
        Words{"plan", run, "--svg", bare}}) {
    expect_answer(words, {"is a file of another kind: choose a name that ends in ."});
  }
  expect_answer({"calibrate", "--quick", "--out", run}, {"no file of calibrate"});
  EXPECT_EQ(text_of("mine.toml"), text);
  EXPECT_EQ(text_of("notes"), "mine");
  EXPECT_EQ(run_in_process({"plan", run, "--svg", path("new")}).code, 0)
      << "a new name may lack it";
  EXPECT_EQ(run_in_process({"plan", run, "--svg", "/dev/null"}).code, 0);
  expect_answer({"plan", run, "--svg", "-"}, {"--svg is '-': name a file"});
}

}  // namespace
}  // namespace tessera
