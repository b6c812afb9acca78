// The subcommands. Each is an options struct, a function that adds its flags to the tree, and a
// `run` that tests call directly. `run` writes data to console.out and returns the exit code;
// failures are thrown.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "launch/environment.h"
#include "spec/run_spec.h"

namespace tessera {

inline constexpr int kSchemaVersion = 1;  // of everything printed with --json

// A node of the tree and what it does once the line is parsed.
struct Command {
  CLI::App* app = nullptr;
  std::function<int(Console&)> run;
};

// A run file with the changes made on the command line.
struct RunSource {
  std::string file;
  std::vector<std::string> overrides;  // "section.key=value"
  std::string mesh;                    // "dp=2,tp=2"; empty: as in the file
  int64_t ranks = 0;                   // the mesh must have this many; 0: any
  bool may_lack_file = false;          // the overrides then say everything
  bool may_be_model = false;           // --model and --cluster do instead of a file

  void add_file_and_set(CLI::App& app);
  void add_mesh(CLI::App& app);
  void add_ranks(CLI::App& app);
  [[nodiscard]] std::string text() const;  // of the file
  // Reads, overrides, resolves and checks; throws ConfigError.
  [[nodiscard]] RunSpec load() const;
};

// A model, a cluster and a split as flags.
struct PlanRequest {
  static constexpr int64_t kNotGiven = -1;
  struct Size {
    const char* flag;
    const char* key;
    const char* help;
    int64_t value = kNotGiven;
  };
  struct Word {
    const char* flag;
    const char* key;
    const char* kind;
    const char* help;
    std::string value = "";
  };
  std::string model, cluster;      // names; empty: not given
  std::string engine = "tessera";  // a name or a file
  std::vector<Size> sizes = {
      {"--tp", "parallel.tp", "ranks that split every layer"},
      {"--pp", "parallel.pp", "pipeline ranks"},
      {"--dp", "parallel.dp", "replicas (default: all devices that are left)"},
      {"--fsdp", "parallel.fsdp", "ranks that share one replica's weights"},
      {"--cp", "parallel.cp", "ranks that split a sequence"},
      {"--ep", "parallel.ep", "ranks that share the experts"},
      {"--zero", "parallel.zero", "ZeRO stage, 0 to 3"},
      {"--virtual-stages", "parallel.virtual_stages", "stages of a pipeline rank"},
      {"--micro-batch", "train.micro_batch", "sequences per rank and forward pass"},
      {"--global-batch", "train.global_batch", "sequences per step"},
      {"--seq-len", "train.seq_len", "tokens of a sequence"},
  };
  bool sequence_parallel = false;
  std::vector<Word> words = {
      {"--schedule", "parallel.schedule", "NAME", "of the pipeline: 1f1b, interleaved, zb-v, …"},
      {"--recompute", "parallel.recompute", "KIND", "none, light, selective, full, every-K"},
      {"--dtype", "train.dtype", "TYPE", "bf16, f16, f32"},
  };
  int64_t tokens = 0;  // of the whole training; 0: not asked
  std::string emit;    // a system of spec/emit/emit_settings.h; empty: the plan
};

struct PlanOptions {
  RunSource source;
  PlanRequest request = {};
  bool json = false;
  bool check = false;    // exit 3 unless the run fits
  bool program = false;  // print one rank's program instead
  int64_t rank = 0;
  std::string svg = "", placements = "";  // files to draw to; empty: none
  std::string vary = "";                  // "KEY=A,B,…": a table of these instead
};
Command add_plan(CLI::App& root);
int run_plan(const PlanOptions& options, Console& console);

struct SimulateOptions {
  RunSource source;
  PlanRequest request = {};       // a model and its split instead of a run file, or over one
  std::string cluster = "";       // name in the catalogue or file; empty: by train.device
  std::vector<std::string> slow;  // "rank=3,factor=1.3"
  std::string lost;               // "rank=2,at=0.5"
  bool no_contention = false;     // kernels keep their speed beside communication
  bool all_ranks = false;         // also those that do the same as others
  bool schedule = false;          // only the pipeline schedule
  std::string svg, trace, csv;    // files to write to; empty: none
  bool json = false;
};
Command add_simulate(CLI::App& root);
int run_simulate(const SimulateOptions& options, Console& console);

struct SearchCommandOptions {
  std::string model, cluster;
  std::string engine = "tessera";
  int64_t global_batch = 0, seq_len = 0;
  std::string objective = "time";   // time | memory | cost
  std::string attention = "flash";  // flash | unfused
  // Only plans with these; 0 (zero: -1): any.
  int64_t tp = 0, pp = 0, dp = 0, cp = 0, ep = 0, micro_batch = 0, zero = -1;
  int64_t top = 20;
  bool pareto = false;
  double usd_per_hour = -1;  // of a device; negative: the cluster's
  int64_t threads = 0;       // 0: all cores
  std::string out;           // folder of run files; empty: none
  bool json = false;
};
Command add_search(CLI::App& root);
int run_search(const SearchCommandOptions& options, Console& console);

struct TrainCommandOptions {
  RunSource source;
  bool dry_run = false;
  bool json = false;
  bool threads = false;          // the same as backend = "local"
  std::string backend = "auto";  // auto | local | shm | mpi | nccl
  bool share_gpu = false;        // processes may share a GPU, for tests
  std::string log_dir;           // of what ranks print; empty: forwarded
  double grace_s = 1.5;          // from ^C to the end of ranks that do not end by themselves
  double comm_timeout_s = 0;     // overrides train.comm_timeout; 0: does not
  std::string inject;            // a fault to provoke, for tests
};
// The environment must outlive the command.
Command add_train(CLI::App& root, const Environment& environment);
int run_train(const TrainCommandOptions& options, const Environment& environment, Console& console);

struct VerifyCommandOptions {
  RunSource source;
  std::vector<std::string> meshes;
  std::string hf, golden;  // compare with recorded values instead of between meshes
  int64_t steps = 3;
  std::string dtype = "f64";
  double tolerance = -1;  // below 0: 1e-12 between meshes, 1e-9 against recorded values
  bool json = false;
  std::string inject;  // a fault to provoke, for tests
};
Command add_verify(CLI::App& root);
int run_verify(const VerifyCommandOptions& options, Console& console);

struct GenerateCommandOptions {
  std::string run_dir;
  std::string prompt;
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: the most likely token
  int64_t top_k = 0;         // 0: all
  int64_t seed = 1;
  bool json = false;
};
Command add_generate(CLI::App& root);
int run_generate(const GenerateCommandOptions& options, Console& console);

struct SynthOptions {
  int64_t seed = 1;
  int64_t bytes = 4'000'000;
  std::string output = "-";  // "-": standard output
};
std::vector<Command> add_data(CLI::App& root);
int run_synth(const SynthOptions& options, Console& console);

struct BenchCommOptions {
  std::string op = "all";        // or names, separated by commas
  std::string ranks = "";        // numbers, separated by commas; empty: 2, or as many as started
  std::string sizes = "1K-64M";  // as parse_sizes reads them
  std::string backend = "shm";
  std::string algorithm = "auto";
  std::string dtype = "f32";
  std::string reduce = "sum";
  bool in_place = false;
  bool out_of_place = false;  // neither: all_reduce in place, the others not
  double budget_s = 0.2;
  bool touch = false;
  bool explain = false;
  bool json = false;
  bool tsv = false;
  bool corrupt = false;  // spoil one result of every case, for tests
  bool rows = false;     // for the process that started this one as a rank
};
// All of bench. The environment must outlive the commands.
std::vector<Command> add_bench(CLI::App& root, const Environment& environment);
int run_bench_comm(const BenchCommOptions& options, const Environment& environment,
                   Console& console);

struct BenchStepOptions {
  RunSource source;
  std::string device;  // overrides train.device; empty: does not
  int64_t steps = 10, warmup = 3;
  double peak_tflops = 0;  // that MFU is a share of; 0: the device's
  bool json = false;
};
int run_bench_step(BenchStepOptions options, Console& console);

// How long a search by closed forms takes; the options that it shares.
Command add_bench_search(CLI::App& bench);
int run_bench_search(const SearchCommandOptions& options, Console& console);

// How many pipeline schedules the simulator plays per second.
struct BenchSimulatorOptions {
  int64_t threads = 2;
  double seconds = 1;  // of every measurement
  bool json = false;
};
Command add_bench_simulator(CLI::App& bench);
int run_bench_simulator(const BenchSimulatorOptions& options, Console& console);

struct ExplainOptions {
  std::string topic;
  std::map<std::string, std::string> given;  // values as written, by flag without dashes
  bool json = false;
};
// `bench` must be there: its `formula` is the same.
std::vector<Command> add_explain(CLI::App& root);
int run_explain(const ExplainOptions& options, Console& console);

struct PresetsOptions {
  std::string kind = "models";  // models | devices | clusters | engines
  bool json = false;
};
Command add_presets(CLI::App& root);
int run_presets(const PresetsOptions& options, Console& console);

struct BenchPublishedOptions {
  std::string file;
  std::string engine;     // of all entries; empty: the one that each names
  std::string catalogue;  // folder of files instead of the catalogue's; empty: none
  bool entries = false;
  bool json = false;
};
Command add_bench_published(CLI::App& bench);
int run_bench_published(const BenchPublishedOptions& options, Console& console);

struct BenchPricingOptions {
  std::string model = "llama-3-405b";
  std::string cluster = "h100-16384";
  std::string engine = "tessera";
  double seconds = 1;
  bool json = false;
};
Command add_bench_pricing(CLI::App& bench);
int run_bench_pricing(const BenchPricingOptions& options, Console& console);

// Predicted step times beside measured ones.
struct BenchPredictOptions {
  std::string list;     // file with one run per line
  std::string cluster;  // file that calibrate wrote
  std::string engine;   // whose closed forms are compared as well; empty: all that are known
  int64_t steps = 10, warmup = 3;
  bool json = false;
};
Command add_bench_predict(CLI::App& bench);
int run_bench_predict(const BenchPredictOptions& options, Console& console);

struct CalibrateCommandOptions {
  std::string out = "machine.toml";
  std::string device = "cpu";
  bool quick = false;
};
// The environment must outlive the command.
Command add_calibrate(CLI::App& root, const Environment& environment);
int run_calibrate(const CalibrateCommandOptions& options, const Environment& environment,
                  Console& console);

struct DoctorOptions {
  bool json = false;
  std::string run_dir = "runs";
};
Command add_doctor(CLI::App& root);
int run_doctor(const DoctorOptions& options, Console& console);

Command add_completion(CLI::App& root);
// A script for "bash", "zsh" or "fish" that knows every command and flag of the tree.
std::string completion_script(const CLI::App& root, const std::string& shell);

}  // namespace tessera
