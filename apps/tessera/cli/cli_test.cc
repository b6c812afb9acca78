// The command line without a process: what is printed where, and the exit code.
#include "cli/cli.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "all_commands.h"
#include "base/text/text.h"
#include "cli/help.h"
#include "in_process.h"

namespace tessera {
namespace {

void expect_usage(const std::vector<std::string>& args, const std::string& message) {
  const Ended result = run_in_process(args);
  EXPECT_EQ(result.code, 2) << message;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "tessera: error: " + message + "\n");
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tessera-cli-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(CliTest, ShowsTheVersion) {
  const Ended result = run_in_process({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "tessera 0.2.0 (schema 1)\n");
}

TEST(CliTest, EveryHelpBeginsWithAnExampleAndEndsWithTheNextCommand) {
  const std::vector<std::vector<std::string>> commands = {{},
                                                          {"plan"},
                                                          {"train"},
                                                          {"metrics"},
                                                          {"studio"},
                                                          {"verify"},
                                                          {"generate"},
                                                          {"serve"},
                                                          {"data"},
                                                          {"data", "synth"},
                                                          {"data", "tokens"},
                                                          {"data", "tokenizer", "train"},
                                                          {"data", "chat"},
                                                          {"bench"},
                                                          {"bench", "comm"},
                                                          {"bench", "step"},
                                                          {"doctor"},
                                                          {"completion"},
                                                          {"help"},
                                                          {"presets"},
                                                          {"explain"},
                                                          {"explain", "ring"},
                                                          {"show"},
                                                          {"show", "schedule"},
                                                          {"bench", "formula"}};
  for (std::vector<std::string> words : commands) {
    std::vector<std::string> by_help = {"help"};
    by_help.insert(by_help.end(), words.begin(), words.end());
    words.emplace_back("--help");
    const Ended result = run_in_process(words);
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_TRUE(result.out.starts_with("Example: ")) << result.out;
    const size_t last = result.out.rfind('\n', result.out.size() - 2) + 1;
    EXPECT_TRUE(result.out.substr(last).starts_with("Next: tessera ")) << result.out;
    for (const std::string hidden : {"--inject", "--corrupt", "--rows"}) {
      EXPECT_EQ(result.out.find(hidden), std::string::npos) << "a hidden flag is shown";
    }
    EXPECT_EQ(run_in_process(by_help).out, result.out);
  }
}

TEST(CliTest, MistakesAreOneLineWithTheNearestName) {
  expect_usage({"trian", "run.toml"},
               "unknown command 'trian'; did you mean 'train'? (see 'tessera --help')");
  expect_usage({"data", "snyth"},
               "unknown command 'snyth'; did you mean 'synth'? (see 'tessera data --help')");
  expect_usage({"plan", "run.toml", "--josn"},
               "unknown option '--josn'; did you mean '--json'? (see 'tessera plan --help')");
  expect_usage({"plan", "--quite"},
               "unknown option '--quite'; did you mean '--quiet'? (see 'tessera plan --help')");
  expect_usage({"plan", "a.toml", "b.toml"},
               "unexpected argument 'b.toml'; one run file at a time (see 'tessera plan --help')");
  expect_usage({"--json", "plan"}, "option '--json' goes after the command: tessera plan --json");
  expect_usage({"help", "trian"},
               "unknown command 'trian'; did you mean 'train'? (see 'tessera --help')");
}

TEST(CliTest, BadValuesNameFlagValueAndFix) {
  expect_usage({"plan", "--ranks", "two"},
               "--ranks is 'two': expected a whole number of at least 1");
  expect_usage({"plan", "--ranks", "0"}, "--ranks is '0': expected a whole number of at least 1");
  expect_usage({"plan", "--ranks", "99999999999999999999"},
               "--ranks is '99999999999999999999': expected a whole number of at least 1");
  expect_usage({"plan", "--ranks"}, "--ranks needs a value (see 'tessera plan --help')");
  expect_usage({"verify", "--tolerance", "nan"},
               "--tolerance is 'nan': expected a number of at least 0");
  expect_usage({"verify", "--tolerance", "inf"}, "--tolerance is 'inf': expected a finite number");
  expect_usage({"verify", "--dtype", "f16"},
               "--dtype is 'f16': use one of f64, f32, bf16, fp8; did you mean 'bf16'?");
  expect_usage({"--color", "pink", "doctor"}, "--color is 'pink': use one of auto, always, never");
  expect_usage({"completion"}, "no shell given: tessera completion bash|zsh|fish");
}

TEST(CliTest, BenchRefusesWhatItCannotMeasure) {
  expect_usage({"bench", "comm", "--sizes", "4q"},
               "--sizes has '4q': expected bytes such as 1000, 64K, 4M or 1G");
  expect_usage({"bench", "comm", "--backend", "carrier"},
               "--backend is 'carrier': use one of shm, local, mpi, nccl");
  expect_usage({"bench", "comm", "--json", "--tsv"},
               "--json and --tsv exclude each other: give one");
  expect_usage({"bench", "comm", "--explain", "--algo", "direct"},
               "--explain shows what auto chooses, but --algo is direct: leave one of them out");
  expect_usage({"bench", "comm", "--explain", "--backend", "nccl"},
               "--explain has nothing to show for --backend nccl: NCCL chooses by itself");
}

TEST(CliTest, BenchMeasuresThreads) {
  const Ended result =
      run_in_process({"bench", "comm", "--op", "all_reduce,scatter", "--backend", "local",
                      "--ranks", "2,3", "--sizes", "1K-4K", "--budget", "0", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["schema_version"], 1);
  EXPECT_EQ(report["sweeps"].size(), 4U);
  EXPECT_EQ(report["sweeps"][3]["op"], "scatter");
  EXPECT_EQ(report["sweeps"][3]["ranks"], 3);
  EXPECT_EQ(report["wrong"], 0);
}

TEST(CliTest, BenchListsAlgorithms) {
  const std::string shm = run_in_process({"bench", "comm", "--algo", "list"}).out;
  EXPECT_NE(shm.find("gather          auto, direct, naive, tree\n"), std::string::npos) << shm;
  const std::string mpi =
      run_in_process({"bench", "comm", "--algo", "list", "--backend", "mpi"}).out;
  EXPECT_NE(mpi.find("all_to_all      auto, direct, ring\n"), std::string::npos) << mpi;
}

TEST(CliTest, MissingInputsAreUsageErrors) {
  expect_usage(
      {"plan"},
      "no run file given: try 'examples/demo.toml', or --model llama-3-8b --cluster h100-8");
  expect_usage({"plan", "no/such.toml"}, "cannot open 'no/such.toml': No such file or directory");
  expect_usage({"plan", "/"}, "'/' is a folder: name a file");
  expect_usage({"plan", "/dev/null"},
               "/dev/null: [model] is missing layers, hidden, ffn, heads, vocab; give them, or "
               "name a preset or an hf folder");
  expect_usage({"generate", "--prompt", "x"}, "generate needs --run DIR, such as runs/demo");
  expect_usage(
      {"generate", "--run", "x", "--prompt", ""},
      "--prompt is '': give it a value, or leave it out (is a variable of the shell unset?)");
  expect_usage({"verify", "--hf", "x"}, "cannot open 'x/config.json': No such file or directory");
  expect_usage({"verify", "--golden", "x"},
               "--golden has values recorded of a folder: give --hf as well");
}

TEST(CliTest, AFolderInThePlaceOfAFileSaysWhatIsInIt) {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  std::ofstream(folder.path() / "config.json") << "{}";
  expect_usage({"train", path}, "'" + path +
                                    "' is a folder: a Hugging Face folder is a model, --model or "
                                    "model.hf");
  std::ofstream(folder.path() / "resolved.toml") << "";
  for (const std::string command : {"plan", "train", "simulate"}) {
    expect_usage({command, path}, "'" + path + "' is a folder: the run file of this run is '" +
                                      path + "/resolved.toml'");
  }
}

TEST(CliTest, AFolderWithoutWeightsCanBeVerifiedFromRandomOnes) {
  const TemporaryFolder folder;
  const std::string config = R"({"model_type": "llama", "hidden_size": 16, "intermediate_size": 32,
    "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 256})";
  std::ofstream(folder.path() / "config.json") << config;
  const std::string run = (folder.path() / "run.toml").string();
  std::ofstream(run) << "[model]\nhf = \"" << folder.path().string()
                     << "\"\n[train]\nseq_len = 8\n[data]\nsynth = {}\n";
  const Ended refused = run_in_process({"verify", run, "--mesh", "dp=2"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("use model.init = \"random\""), std::string::npos) << refused.err;
  const Ended equal =
      run_in_process({"verify", run, "--mesh", "dp=2", "--set", "model.init=random"});
  EXPECT_EQ(equal.code, 0) << equal.err;
}

// As train does: what would take the machine down is not begun.
TEST(CliTest, NothingIsMeasuredThatDoesNotFit) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run.toml").string();
  std::ofstream(run) << "[model]\npreset = \"llama-3-405b\"\n[data]\nsynth = {}\n";
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"bench", "step", run}, {"verify", run, "--mesh", "dp=2"}}) {
    const Ended refused = run_in_process(args);
    EXPECT_EQ(refused.code, 3) << refused.err;
    EXPECT_NE(refused.err.find("does not fit: rank 0"), std::string::npos) << refused.err;
  }
}

TEST(CliTest, EveryDocumentSaysWhatItIs) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> documents = {
      {"presets", {"presets"}},
      {"presets", {"presets", "devices"}},
      {"explanation", {"explain", "ring"}},
      {"doctor", {"doctor"}},
      {"settings", {"plan", "--model", "llama-3-8b", "--cluster", "h100-8", "--emit", "deepspeed"}},
      {"schedule",
       {"simulate", "--model", "tiny-3m", "--cluster", "h100-2", "--pp", "2", "--schedule-only"}},
      {"simulation", {"simulate", "--model", "tiny-3m", "--cluster", "h100-2"}},
      {"variation",
       {"plan", "--model", "tiny-3m", "--cluster", "h100-2", "--vary", "parallel.tp=1"}},
      {"plan", {"plan", "--model", "tiny-3m", "--cluster", "h100-2"}},
      {"bench_comm",
       {"bench", "comm", "--op", "all_reduce", "--backend", "local", "--ranks", "2", "--sizes",
        "1K", "--budget", "0"}}};
  for (const auto& [kind, args] : documents) {
    std::vector<std::string> words = args;
    words.emplace_back("--json");
    const Ended ended = run_in_process(words);
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(nlohmann::json::parse(ended.out).value("kind", "none"), kind) << words.front();
  }
}

// A run with a checkpoint, a text and a set in `folder`.
void make_things_to_show(const std::filesystem::path& folder, const std::string& tokenizer) {
  std::ofstream(folder / "run.toml")
      << "[model]\nlayers=1\nhidden=16\nffn=16\nheads=2\nvocab=256\n[train]\nseq_len=16\n"
         "steps=2\n[checkpoint]\nevery=1\n[data]\nsynth={}\n";
  std::ofstream(folder / "text") << "Once upon a time. And then?\n";
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"train", folder / "run.toml", "--threads", "-q", "--set",
            "logging.run_dir=" + (folder / "run").string()},
           {"data", "prepare", folder / "text", "--tokenizer", tokenizer, "--end", "<|end|>",
            "--out", folder / "set"}}) {
    const Ended made = run_in_process(words);
    ASSERT_EQ(made.code, 0) << made.err;
  }
}

// The width of the terminal must reach the commands: what they print is made for it.
TEST(CliTest, EveryLineIsAsWideAsTheTerminalAtMost) {
  const TemporaryFolder folder;
  const std::string tokenizer = TESSERA_SOURCE_DIR "/tests/data/tokenizers/llama3";
  make_things_to_show(folder.path(), tokenizer);
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  const std::vector<std::vector<std::string>> commands = {
      {"plan", "--model", "llama-3-8b", "--cluster", "h100-8"},
      {"plan", "--model", "llama-3-8b", "--cluster", "h100-8", "--vary", "parallel.tp=1,2"},
      {"simulate", "--model", "tiny-3m", "--cluster", "h100-2", "--seq-len", "256"},
      {"explain", "zero"},
      {"presets", "clusters"},
      {"train", "--help"},
      {"doctor"},
      {"plan", "--serve", "llama-3-8b", "--cluster", "h100-8", "--mesh", "tp=2,pp=2"},
      {"show", "serving"},
      {"simulate", "--model", "llama-3-8b", "--cluster", "h100-64", "--tp", "8", "--mtbf",
       "50000h"},
      {"explain", "failures"},
      {"checkpoint", "ls", path("run")},
      {"checkpoint", "show", path("run")},
      {"checkpoint", "verify", path("run")},
      {"checkpoint", "verify", path("run"), "--deep"},
      {"data", "check", path("set")},
      {"data", "samples", path("run.toml")},
      {"data", "tokens", "Once upon a time", "--tokenizer", tokenizer},
      {"eval", path("run"), "--data", path("text")},
      {"metrics", path("run")},
      {"serve", "--help"},
      {"chat", "--help"},
      {"bench", "serve", "--help"},
      {"presets", "recipes"}};
  for (const size_t columns : {60U, 80U, 200U}) {
    for (const std::vector<std::string>& args : commands) {
      SCOPED_TRACE(args.front() + " at " + std::to_string(columns));
      std::ostringstream out, err;
      Console console{.out = out, .err = err, .out_is_terminal = true, .out_columns = columns};
      std::vector<std::string> plain = args;
      plain.insert(plain.end(), {"--color", "never"});
      EXPECT_EQ(run_cli(plain, console, {}, add_all_commands), 0) << err.str();
      std::istringstream lines(out.str());
      for (std::string line; std::getline(lines, line);) {
        // What is meant to be copied stays whole.
        const bool command = line.starts_with("Example: ") || line.starts_with("Next: ");
        const auto width =
            std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
        EXPECT_TRUE(command || static_cast<size_t>(width) <= columns) << line;
      }
    }
  }
}

TEST(CliTest, ExplainsUnderBothNames) {
  const std::vector<std::string> flags = {"--bytes", "140GB", "--ranks", "32", "--json"};
  std::vector<std::string> explain = {"explain", "ring"}, bench = {"bench", "formula", "ring"};
  explain.insert(explain.end(), flags.begin(), flags.end());
  bench.insert(bench.end(), flags.begin(), flags.end());
  const Ended result = run_in_process(explain);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(run_in_process(bench).out, result.out);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_DOUBLE_EQ(json["results"]["time"]["value"].get<double>(), 10.85);
  EXPECT_EQ(json["given"]["ranks"], 32);
  expect_usage({"explain", "rign"},
               "unknown command 'rign'; did you mean 'ring'? (see 'tessera explain --help')");
  expect_usage(
      {"explain", "ring", "--ranks", ""},
      "--ranks is '': give it a value, or leave it out (is a variable of the shell unset?)");
}

TEST(CliTest, ListsModelsWithTheirSizes) {
  const nlohmann::json json = nlohmann::json::parse(run_in_process({"presets", "--json"}).out);
  bool found = false;
  for (const nlohmann::json& model : json["models"]) {
    found = found || (model["name"] == "deepseek-v3" && model["trainable"] == false &&
                      model["why_not"] == "model.kv_rank = 512 (latent attention)");
  }
  EXPECT_TRUE(found);
  EXPECT_NE(run_in_process({"presets"}).out.find("llama-3.1-405b"), std::string::npos);
  EXPECT_NE(run_in_process({"presets", "devices"}).out.find("h100"), std::string::npos);
  EXPECT_NE(run_in_process({"presets", "clusters"}).out.find("nvlink 450 GB/s, infiniband 50 GB/s"),
            std::string::npos);
  const nlohmann::json clusters =
      nlohmann::json::parse(run_in_process({"presets", "clusters", "--json"}).out);
  EXPECT_GE(clusters["clusters"].size(), 3U);
  expect_usage({"presets", "planets"},
               "kind is 'planets': use one of models, devices, clusters, engines, recipes");
}

TEST(CliTest, NoCommandShowsHelpAndFails) {
  const Ended result = run_in_process({});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, run_in_process({"--help"}).out);
}

// On a terminal of 60 columns, `out` and `err` alike.
TEST(CliTest, EveryCommandKeepsToTheWidthOfTheTerminal) {
  constexpr size_t kColumns = 60;
  const auto widest = [](const std::string& text) {
    size_t most = 0;
    for (const std::string_view line : split(text, '\n')) {
      const bool copied = line.find("tessera ") != line.npos || line.find("--") != line.npos;
      if (!copied) most = std::max(most, line.size());
    }
    return most;
  };
  const std::vector<std::vector<std::string>> commands = {
      {"plan", "--model", "llama-3-8b", "--cluster", "h100-64", "--tp", "8"},
      {"presets", "models"},
      {"presets", "clusters"},
      {"explain", "memory"},
      {"bench", "comm", "--explain", "--op", "all_reduce", "--sizes", "1K-1M"},
      {"plan", "--model", "llama-3-9b", "--cluster", "h100"},
      {"bench"}};
  for (const std::vector<std::string>& command : commands) {
    std::ostringstream out, err;
    Console console{.out = out, .err = err, .out_columns = kColumns};
    console.err_columns = [] { return kColumns; };
    (void)run_cli(command, console, {}, add_all_commands);
    EXPECT_LE(widest(out.str()), kColumns) << out.str();
    EXPECT_LE(widest(err.str()), kColumns) << err.str();
    EXPECT_GT(out.str().size() + err.str().size(), kColumns) << command.front();
  }
}

TEST(CliTest, GlobalFlagsMayFollowTheCommand) {
  const Ended result = run_in_process({"generate", "--color", "always"});
  EXPECT_EQ(result.code, 2);
  EXPECT_TRUE(result.err.starts_with("\033[1;31mtessera: error:\033[0m ")) << result.err;
}

TEST(CliTest, SynthWritesTheAskedBytes) {
  const Ended printed = run_in_process({"data", "synth", "--seed", "3", "--bytes", "1000"});
  EXPECT_EQ(printed.code, 0);
  EXPECT_EQ(printed.out.size(), 1000U);
  EXPECT_NE(printed.out, run_in_process({"data", "synth", "--seed", "4", "--bytes", "1000"}).out);

  const TemporaryFolder folder;
  const std::string path = folder.path() / "stories.txt";
  const Ended saved =
      run_in_process({"data", "synth", "--seed", "3", "--bytes", "1000", "-o", path});
  EXPECT_EQ(saved.code, 0);
  EXPECT_EQ(saved.out, "");
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), printed.out);
}

TEST(CliTest, AFullDiskIsAnError) {
  const Ended result = run_in_process({"data", "synth", "--bytes", "1000", "-o", "/dev/full"});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("No space left"), std::string::npos) << result.err;

  std::ostringstream out, err;
  out.setstate(std::ios::badbit);
  Console console{.out = out, .err = err};
  EXPECT_EQ(run_cli({"data", "synth", "--bytes", "10"}, console, {}, add_all_commands), 1);
  EXPECT_NE(err.str().find("standard output"), std::string::npos) << err.str();
}

TEST(CliTest, DoctorReportsTheMachine) {
  const TemporaryFolder folder;
  const Ended result = run_in_process({"doctor", "--json", "--run-dir", folder.path() / "a" / "b"});
  EXPECT_EQ(result.code, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["schema_version"], 1);
  EXPECT_GE(report["cores"], 1);
  EXPECT_GT(report["memory_bytes"], 0);
  EXPECT_EQ(report["run_dir_writable"], true);
  EXPECT_TRUE(report.contains("gpu") || report.contains("gpu_0")) << result.out;
}

TEST(CliTest, DoctorRefusesARunDirectoryBelowAFile) {
  const Ended result = run_in_process({"doctor", "--run-dir", "/dev/null/runs"});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("'/dev/null/runs' cannot be written"), std::string::npos) << result.err;
}

// What bash offers after `words`, the last of which is being typed.
std::string bash_offers(const std::string& script, const std::string& words) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "try.sh";
  std::ofstream(path) << script << "COMP_WORDS=(" << words << ")\n"
                      << "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_tessera\n"
                      << "echo \"${COMPREPLY[*]}\" > " << path << ".out\n";
  if (std::system(("bash " + path).c_str()) != 0) return "bash failed";
  std::string line;
  std::ifstream file(path + ".out");
  std::getline(file, line);
  return line;
}

TEST(CliTest, BashCompletesCommandsFlagsAndChoices) {
  const std::string script = run_in_process({"completion", "bash"}).out;
  EXPECT_EQ(bash_offers(script, "tessera tr"), "train");
  EXPECT_EQ(bash_offers(script, "tessera data ''"),
            "synth chat samples prepare check tokens tokenizer -h --help -q --quiet --color");
  EXPECT_EQ(bash_offers(script, "tessera data synth --b"), "--bytes");
  EXPECT_EQ(bash_offers(script, "tessera plan run.toml --pro"), "--program");
  EXPECT_EQ(bash_offers(script, "tessera plan --color a"), "auto always");
  EXPECT_EQ(bash_offers(script, "tessera plan --set ''"), "") << "a value: file names take over";
  EXPECT_EQ(bash_offers(script, "tessera completion z"), "zsh");
  EXPECT_EQ(bash_offers(script, "tessera train --in"), "") << "a hidden flag is offered";
}

TEST(CliTest, EveryShellKnowsEveryFlag) {
  const std::string zsh = run_in_process({"completion", "zsh"}).out;
  const std::string fish = run_in_process({"completion", "fish"}).out;
  for (const std::string flag : {"tolerance", "top-k", "dry-run", "bytes", "color"}) {
    EXPECT_NE(zsh.find("--" + flag), std::string::npos) << flag;
    EXPECT_NE(fish.find("-l " + flag), std::string::npos) << flag;
  }
  EXPECT_NE(fish.find("'__fish_seen_subcommand_from data; and __fish_seen_subcommand_from synth'"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
