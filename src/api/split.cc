#include "api/split.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "plan/memory_limit.h"
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

// Fills in what flags leave open in a run that no file describes.
void fill_in(RunSpec& spec, const std::vector<std::string>& settings, const Cluster& cluster,
             std::vector<Guess>& guesses) {
  ParallelSpec& p = spec.parallel;
  TrainSpec& t = spec.train;
  if (!given(settings, "train.dtype")) {
    t.dtype = DType::kBF16;
    guesses.push_back({"train.dtype", "bf16"});
  }
  if (!given(settings, "train.seq_len")) {
    const int64_t most = spec.model.max_positions;  // 0: any number
    t.seq_len = most > 0 ? std::min(kDefaultSeqLen, most) : kDefaultSeqLen;
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
    require_config(others <= cluster.devices && cluster.devices % others == 0,
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
  fields.text("engine", split.engine);
  for (SplitFlags::Size& size : split.sizes) fields.whole(key_of(size.flag), size.value, 0);
  fields.truth("sequence_parallel", split.sequence_parallel);
  for (SplitFlags::Word& word : split.words) fields.text(key_of(word.flag), word.value);
}

std::vector<std::string> settings_of(const SplitFlags& split) {
  std::vector<std::string> settings;
  if (!split.model.empty()) settings.push_back("model.preset=" + split.model);
  for (const SplitFlags::Size& size : split.sizes) {
    if (size.value != SplitFlags::kNotGiven) {
      settings.push_back(fmt::format("{}={}", size.key, size.value));
    }
  }
  if (split.sequence_parallel) settings.emplace_back("parallel.sequence_parallel=true");
  for (const SplitFlags::Word& word : split.words) {
    if (!word.value.empty()) settings.push_back(fmt::format("{}={}", word.key, word.value));
  }
  return settings;
}

RunSource with_settings(RunSource source, const SplitFlags& split) {
  const std::vector<std::string> settings = settings_of(split);
  source.overrides.insert(source.overrides.begin(), settings.begin(), settings.end());
  return source;
}

RunSpec load_split(const RunSource& source, const SplitFlags& split, const Cluster& cluster,
                   const FileReader& read, std::vector<Guess>& guesses, OpenSettings* open) {
  const std::vector<std::string> settings = with_settings(source, split).overrides;
  const bool has_file = !source.file.empty();
  require_config(has_file || given(settings, "model.preset") || given(settings, "model.layers"),
                 "no model given: use a run file, or --model llama-3-8b");
  RunSpec spec = parse_run_file(has_file ? source.text(read) : "", source.file, settings, read);
  if (!source.mesh.empty()) spec.parallel = parse_mesh(source.mesh, spec.parallel);
  read_schedule_file(spec.parallel, read);
  if (open != nullptr) *open = open_settings(spec);
  if (!has_file && source.mesh.empty()) {
    fill_in(spec, settings, cluster, guesses);
    give_experts_ranks(spec, settings, guesses);
  }
  if (source.ranks > 0) require_world(spec.parallel, source.ranks, spec.model.heads);
  use_cluster_defaults(spec, cluster);
  resolve(spec);
  return spec;
}

}  // namespace tessera
