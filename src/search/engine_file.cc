#include "search/engine_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "compile/scale/scale_plan.h"
#include "cost/step/stages.h"
#include "plan/run_plan.h"
#include "search/in_parallel.h"
#include "search/search.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/trainable.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

// dp and fsdp as run files split them.
struct DataSplit {
  int64_t dp = 1, fsdp = 1;
};

// What the names of a run file cannot say.
std::string missing_choice(const Workload& w, const Strategy& s) {
  if (s.order != RankOrder::kTensorDataPipeline) {
    return fmt::format("ranks in the order {}", name_of(s.order));
  }
  if (s.shard > 0 && s.shard % s.cp != 0) {
    return fmt::format("sharding over {} ranks, a part of cp = {}", s.shard, s.cp);
  }
  if (s.expert_tp > 1 && s.ep > 1) return "experts that are split over tp and over ep";
  if (w.precision.products == MathType::kF8 || w.precision.products == MathType::kF4) {
    return fmt::format("{} products", name_of(w.precision.products));
  }
  return "";
}

DataSplit data_split(const Strategy& s) {
  if (s.zero < 3 && s.ep == 1) return {s.dp, 1};
  if (s.shard == 0) return {1, s.dp};
  const int64_t fsdp = s.shard / s.cp;
  return {s.dp / fsdp, fsdp};
}

std::vector<int64_t> stage_layers(const Workload& w, const Strategy& s) {
  if (!s.stage_layers.empty()) return s.stage_layers;
  std::vector<int64_t> layers;
  const int64_t stages = s.pp * s.virtual_stages;
  for (int64_t i = 0; i < stages; ++i) {
    layers.push_back(even_stage_layers(w.model.layers, stages, i));
  }
  return layers;
}

// "full:2+none/full:1+none/none": by stage, the last choice for all that follow.
std::string stages_recompute_text(const Workload& w, const Strategy& s) {
  std::vector<std::string> choices;
  const std::vector<int64_t> layers = stage_layers(w, s);
  for (size_t i = 0; i < layers.size(); ++i) {
    const int64_t again = std::min(s.stage_recompute[i], layers[i]);
    choices.push_back(
        again == 0 ? "none" : (again == layers[i] ? "full" : fmt::format("full:{}+none", again)));
  }
  while (choices.size() > 1 && choices.back() == choices[choices.size() - 2]) choices.pop_back();
  return fmt::format("{}", fmt::join(choices, "/"));
}

std::string recompute_text(const Workload& w, const Strategy& s) {
  if (!s.stage_recompute.empty()) return stages_recompute_text(w, s);
  if (s.recompute != Recompute::kFull || s.recompute_layers < 0) {
    return std::string(name_of(s.recompute));
  }
  // The engine counts blocks of a stage, the strategy layers of a rank.
  const int64_t of_stage = (s.recompute_layers + s.virtual_stages - 1) / s.virtual_stages;
  return fmt::format("full:{}+none", of_stage);
}

std::string model_text(const ModelSpec& model) {
  return fmt::format("[model]\npreset = \"{}\"\n", model.preset);
}

std::string file_text(const ModelSpec& model, const Workload& w, const Strategy& s) {
  const DataSplit data = data_split(s);
  std::string text = model_text(model);
  text += fmt::format("\n[parallel]\ntp = {}\npp = {}\ncp = {}\ndp = {}\nfsdp = {}\n", s.tp, s.pp,
                      s.cp, data.dp, data.fsdp);
  if (s.ep > 1) text += fmt::format("ep = {}\n", s.ep);
  text += fmt::format("zero = {}\nsequence_parallel = {}\nrecompute = \"{}\"\n", s.zero,
                      s.sequence_parallel, recompute_text(w, s));
  if (s.cp > 1) text += fmt::format("cp_kind = \"{}\"\n", name_of(s.context));
  if (s.zero == 3) text += fmt::format("release_after_forward = {}\n", s.release_after_forward);
  if (s.pp > 1) {
    text += fmt::format("schedule = \"{}\"\nvirtual_stages = {}\nstage_layers = [{}]\n",
                        name_of(s.schedule), s.virtual_stages, fmt::join(stage_layers(w, s), ", "));
  }
  text += fmt::format(
      "\n[train]\nseq_len = {}\nmicro_batch = {}\nglobal_batch = {}\ndtype = \"bf16\"\n"
      "device = \"{}\"\n",
      w.seq_len, s.micro_batch, w.global_batch, name_of(train_device(w.cluster.device.kind)));
  // What is reserved is not a rank's to use. Rounded down: the file must not promise more.
  const int64_t thousandths = usable_bytes(w.cluster) * 125 / (int64_t{1} << 27);
  text +=
      fmt::format("\n[cluster]\nmemory_gib = {}.{:03}\n", thousandths / 1000, thousandths % 1000);
  return text;
}

EngineFile engine_file(const ModelSpec& model, const Workload& workload, const Strategy& strategy,
                       const FileReader& read, ScalePlanner& planner) {
  if (std::string lacks = missing_choice(workload, strategy); !lacks.empty()) return {"", lacks, 0};
  if (model.preset.empty())
    return {"", "a model without a name: give --model a preset or a file", 0};
  EngineFile file{file_text(model, workload, strategy), "", 0};
  // Whatever the engine refuses, its own message says best.
  try {
    require_trainable(model);
    RunSpec spec = parse_run_file(file.toml, "plan.toml", {}, read);
    use_cluster_defaults(spec, workload.cluster);
    resolve(spec);
    file.peak_bytes = planner.plan(spec).heaviest().total_bytes();
    const int64_t limit = memory_limit(spec, workload.cluster);
    if (file.peak_bytes > limit) {
      return {"",
              fmt::format("memory: its Programs need {:.1f} GB",
                          static_cast<double>(file.peak_bytes) / 1e9),
              file.peak_bytes};
    }
  } catch (const ConfigError& error) {
    return {"", error.what(), 0};
  }
  return file;
}

}  // namespace

std::vector<EngineFile> engine_files(const ModelSpec& model, const Workload& workload,
                                     std::span<const Strategy> strategies, const FileReader& read,
                                     int threads) {
  std::vector<EngineFile> files(strategies.size());
  std::vector<ScalePlanner> planners(static_cast<size_t>(threads));
  in_parallel(strategies.size(), threads, [&](size_t i, size_t thread) {
    files[i] = engine_file(model, workload, strategies[i], read, planners[thread]);
  });
  return files;
}

}  // namespace tessera
