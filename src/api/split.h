// What a plan or a simulation is asked for without a run file, or on top of one: a model, a cluster
// and a split. What nobody says is filled in, and listed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "cost/hardware/cluster.h"
#include "cost/step/estimate.h"
#include "plan/failure_plan.h"
#include "plan/fit_advice.h"
#include "spec/run_file/run_source.h"

namespace tessera {

// A model, a cluster and a split as flags, or as keys of a request.
struct SplitFlags {
  struct Size {
    const char* flag;
    const char* key;
    const char* help;
    std::string value = "";  // a count as people write it: "8", "8k"; empty: not given
  };
  struct Word {
    const char* flag;
    const char* key;
    const char* kind;
    const char* help;
    std::string value = "";
  };
  std::string model, cluster;  // names; empty: not given
  std::string recipe;          // a name or a file (api/recipe.h); empty: not given
  std::vector<std::string> recipe_settings = {};  // its settings, under all flags
  std::string engine = "tessera";                 // a name or a file
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
      {"--global-batch", "train.global_batch", "sequences per step, or tokens: 4Mtok"},
      {"--seq-len", "train.seq_len", "tokens of a sequence; 8k is 8192"},
  };
  bool sequence_parallel = false;
  std::vector<Word> words = {
      {"--schedule", "parallel.schedule", "NAME", "of the pipeline: 1f1b, interleaved, zb-v, …"},
      {"--recompute", "parallel.recompute", "KIND", "none, light, selective, full, every-K"},
      {"--dtype", "train.dtype", "TYPE", "bf16, f16, f32; fp8 for products of blocks"},
  };
  int64_t tokens = 0;  // of the whole training; 0: not asked
};

// Reads "run_file", "set", "mesh" and "ranks".
void read_source(Fields& fields, RunSource& source);
// Reads "model", "recipe", "engine" and a key for each size and word, as its flag:
// "virtual_stages".
void read_split(Fields& fields, SplitFlags& split);

// Reads "mtbf_device", "save" and "restart": times as text, "50000h", or numbers of seconds.
void read_failures(Fields& fields, FailureFlags& failures);

// Whether the products of the blocks are to be priced in fp8 (--dtype fp8).
bool asks_for_fp8(const SplitFlags& split);
// Throws ConfigError where they are, since `what` cannot be said or done with it.
void refuse_fp8(const SplitFlags& split, std::string_view what);

// Flags as "section.key=value", those that were given.
std::vector<Setting> settings_of(const SplitFlags& split);

// The source with the flags before its own, and a recipe's settings under all.
RunSource with_settings(RunSource source, const SplitFlags& split);

// The cluster that a flag, a setting or the run file names; empty: none does.
std::string cluster_for(const RunSource& source, const SplitFlags& split, const FileReader& read);

// The run of `source` with the flags of `split` over it, for `cluster`, resolved. What was filled
// in is added to `guesses`; `open` gets what follows from the rest because nobody said it.
RunSpec load_split(const RunSource& source, const SplitFlags& split, const Cluster& cluster,
                   const FileReader& read, std::vector<Guess>& guesses,
                   OpenSettings* open = nullptr);

}  // namespace tessera
