#include "api/split.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "plan/memory_limit.h"
#include "spec/entry.h"
#include "spec/keys.h"
#include "spec/run_file/pipeline.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

constexpr int64_t kDefaultSeqLen = 4096;
// Micro-batches of a pipeline, so that its bubble is a fifth or less.
constexpr int64_t kMicroBatchesPerStage = 4;
constexpr double kMostSequences = 1e12;  // as train.global_batch

bool given(const std::vector<std::string>& settings, std::string_view key) {
  return std::any_of(settings.begin(), settings.end(), [&](const std::string& setting) {
    return std::string_view(setting).substr(0, setting.find('=')) == key;
  });
}

int64_t guessed_length(const ModelSpec& model) {
  const int64_t most = model.max_positions;  // 0: any number
  return most > 0 ? std::min(kDefaultSeqLen, most) : kDefaultSeqLen;
}

// "train.seq_len=8k" and "train={seq_len=8k}" both say train.seq_len.
std::vector<std::string> keys_of(const Setting& setting) {
  std::vector<std::string> keys;
  for (const Entry& entry : entries_of(setting))
    keys.push_back(join_path(entry.section, entry.name));
  return keys;
}

std::vector<std::string> keys_said(const std::vector<Setting>& settings, std::string_view mesh) {
  std::vector<std::string> keys = keys_of_mesh(mesh);
  for (const Setting& setting : settings) {
    for (std::string& key : keys_of(setting)) keys.push_back(std::move(key));
  }
  return keys;
}

// With the length that fill_in() will guess, where nobody gives one: a batch in tokens is counted
// in sequences when the settings are read.
std::vector<Setting> with_length(std::vector<Setting> settings, const FileReader& read) {
  std::vector<Setting> of_model;
  for (const Setting& setting : settings) {
    const std::vector<std::string> keys = keys_of(setting);
    if (given(keys, "train.seq_len")) return settings;
    if (!keys.empty() && keys.front().starts_with("model")) of_model.push_back(setting);
  }
  const ModelSpec model = parse_run("", "", of_model, read).model;
  settings.push_back({fmt::format("train.seq_len={}", guessed_length(model)), "guessed"});
  return settings;
}

// A value that is a name or a path, whatever it looks like.
std::string quoted(const std::string& name) {
  return name.find('\'') == std::string::npos ? fmt::format("'{}'", name) : name;
}

// Fills in what flags leave open in a run that no file describes. `settings` are keys with or
// without their values.
void fill_in(RunSpec& spec, const std::vector<std::string>& settings, const Cluster& cluster,
             std::vector<Guess>& guesses) {
  ParallelSpec& p = spec.parallel;
  TrainSpec& t = spec.train;
  if (!given(settings, "train.dtype")) {
    t.dtype = DType::kBF16;
    guesses.push_back({"train.dtype", "bf16"});
  }
  if (!given(settings, "train.seq_len")) {
    t.seq_len = guessed_length(spec.model);
    guesses.push_back({"train.seq_len", std::to_string(t.seq_len)});
  }
  if (p.tp > 1 && !given(settings, "parallel.sequence_parallel")) {
    guesses.push_back(
        {"parallel.sequence_parallel",
         "off, as in run files; --sequence-parallel splits what lies between products "
         "over tp as well, which takes less memory"});
  }
  for (const int64_t size : {p.pp, p.cp, p.tp, p.fsdp, p.dp, t.micro_batch}) {
    if (size < 1) return;  // resolve() says which
  }
  if (!given(settings, "parallel.dp")) {
    const int64_t others = p.pp * p.cp * p.tp * p.fsdp;
    require_config(others <= cluster.devices,
                   "pp * cp * tp * fsdp is {}, more than the {} devices of cluster {}; use smaller "
                   "sizes, or a cluster of more devices (h100-64 is 64 of h100)",
                   others, cluster.devices, cluster.name);
    require_config(cluster.devices % others == 0,
                   "pp * cp * tp * fsdp is {}, which does not divide the {} devices of cluster {}; "
                   "give --dp, or other sizes",
                   others, cluster.devices, cluster.name);
    p.dp = cluster.devices / others;
    require_config(p.dp <= kMaxAxis,
                   "{} devices are left for dp, more than the {} of an axis; give some of them to "
                   "--fsdp, --tp, --pp or --cp",
                   p.dp, kMaxAxis);
    guesses.push_back({"parallel.dp", fmt::format("{}, so that all devices are used", p.dp)});
  }
  if (!given(settings, "train.global_batch")) {
    const int64_t micro_batches = p.pp > 1 ? kMicroBatchesPerStage * p.pp : 1;
    const double sequences = static_cast<double>(t.micro_batch) *
                             static_cast<double>(p.replicas()) * static_cast<double>(micro_batches);
    require_config(sequences <= kMostSequences,
                   "{} micro-batches of {} sequences on {} replicas are more than a step may have "
                   "(1e12); use a smaller --micro-batch",
                   micro_batches, t.micro_batch, p.replicas());
    t.global_batch = t.micro_batch * p.replicas() * micro_batches;
    guesses.push_back(
        {"train.global_batch", fmt::format("{}, {}", count_of(t.global_batch, "sequence"),
                                           count_of(micro_batches, "micro-batch"))});
  }
}

// Experts take their ranks from tp, cp and fsdp. Where nobody names fsdp, the replicas are that, as
// a search means it.
void give_experts_ranks(RunSpec& spec, const std::vector<std::string>& settings,
                        std::vector<Guess>& guesses) {
  ParallelSpec& p = spec.parallel;
  const bool enough = p.ep == 1 || p.ep == p.tp || p.ep == p.tp * p.cp;
  if (enough || given(settings, "parallel.fsdp") || p.tp < 1 || p.ep % p.tp != 0) return;
  p.fsdp = p.dp;
  p.dp = 1;
  if (p.zero == -1) p.zero = 0;
  guesses.push_back({"parallel.fsdp",
                     fmt::format("{}, the replicas: ep = {} takes ranks from fsdp", p.fsdp, p.ep)});
}

// What is not a product of a block stays bf16.
bool is_fp8(const SplitFlags::Word& word) {
  return word.key == std::string_view("train.dtype") && word.value == "fp8";
}

// "--virtual-stages" is "virtual_stages" in JSON.
std::string key_of(std::string_view flag) {
  std::string key(flag.substr(2));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

}  // namespace

void read_source(Fields& fields, RunSource& source) {
  fields.text("run_file", source.file);
  fields.texts("set", source.overrides);
  fields.text("mesh", source.mesh);
  fields.whole("ranks", source.ranks, 1);
}

void read_split(Fields& fields, SplitFlags& split) {
  fields.text("model", split.model);
  fields.text("recipe", split.recipe);
  fields.text("engine", split.engine);
  for (SplitFlags::Size& size : split.sizes) fields.count_text(key_of(size.flag), size.value);
  fields.truth("sequence_parallel", split.sequence_parallel);
  for (SplitFlags::Word& word : split.words) fields.text(key_of(word.flag), word.value);
}

void read_failures(Fields& fields, FailureFlags& failures) {
  fields.duration_text("mtbf_device", failures.mtbf_device);
  fields.duration_text("save", failures.save);
  fields.duration_text("restart", failures.restart);
}

bool asks_for_fp8(const SplitFlags& split) {
  return std::any_of(split.words.begin(), split.words.end(), is_fp8);
}

void refuse_fp8(const SplitFlags& split, std::string_view what) {
  require_config(
      !asks_for_fp8(split),
      "{} with --dtype fp8, which prices products and computes nothing: use --set train.dtype=fp8 "
      "for Programs of 8 bits, or --dtype bf16",
      what);
}

std::vector<Setting> settings_of(const SplitFlags& split) {
  std::vector<Setting> settings;
  const auto add = [&](std::string_view key, const std::string& value, std::string_view flag,
                       const std::string& typed) {
    if (!typed.empty()) {
      settings.push_back({fmt::format("{}={}", key, value), fmt::format("{} {}", flag, typed)});
    }
  };
  add("model.preset", quoted(split.model), "--model", split.model);
  add("cluster.name", quoted(split.cluster), "--cluster", split.cluster);
  for (const SplitFlags::Size& size : split.sizes) add(size.key, size.value, size.flag, size.value);
  if (split.sequence_parallel) {
    settings.push_back({"parallel.sequence_parallel=true", "--sequence-parallel"});
  }
  for (const SplitFlags::Word& word : split.words) {
    add(word.key, is_fp8(word) ? "bf16" : word.value, word.flag, word.value);
  }
  return settings;
}

RunSource with_settings(RunSource source, const SplitFlags& split) {
  const std::vector<Setting> settings = settings_of(split);
  source.flags.insert(source.flags.begin(), settings.begin(), settings.end());
  for (const std::string& setting : split.recipe_settings) {
    source.under.push_back({setting, "--recipe " + split.recipe});
  }
  return source;
}

std::string cluster_for(const RunSource& source, const SplitFlags& split, const FileReader& read) {
  const std::string text = source.file.empty() ? "" : source.text(read);
  return named_cluster(text, source.file, with_settings(source, split).settings());
}

RunSpec load_split(const RunSource& source, const SplitFlags& split, const Cluster& cluster,
                   const FileReader& read, std::vector<Guess>& guesses, OpenSettings* open) {
  const std::vector<Setting> settings = with_settings(source, split).settings();
  const std::vector<std::string> said = keys_said(settings, source.mesh);
  const bool has_file = !source.file.empty();
  const bool has_model = has_file || given(said, "model.preset") || given(said, "model.hf") ||
                         given(said, "model.layers");
  require_config(has_model, "no model given: use a run file, or --model llama-3-8b");
  RunSpec spec = has_file ? parse_run(source.text(read), source.file, settings, read)
                          : parse_run("", "", with_length(settings, read), read);
  if (!source.mesh.empty()) spec.parallel = parse_mesh(source.mesh, spec.parallel);
  read_schedule_file(spec.parallel, read);
  if (open != nullptr) *open = open_settings(spec);
  if (!has_file) {
    fill_in(spec, said, cluster, guesses);
    give_experts_ranks(spec, said, guesses);
  }
  if (source.ranks > 0) require_world(spec.parallel, source.ranks, spec.model.heads);
  use_cluster_defaults(spec, cluster);
  resolve(spec);
  return spec;
}

}  // namespace tessera
