#include "plan/run_of_strategy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cost/step/stages.h"
#include "plan/memory_limit.h"

namespace tessera {
namespace {

// dp and fsdp as run files split them.
struct DataSplit {
  int64_t dp = 1, fsdp = 1;
};

DataSplit data_split(const Strategy& s) {
  if (s.zero < 3 && s.ep == 1) return {s.dp, 1};
  if (s.shard == 0) return {1, s.dp};
  const int64_t fsdp = s.shard / s.cp;
  return {s.dp / fsdp, fsdp};
}

// "full:2+none/full:1+none/none": by stage, the last choice for all that follow.
std::string stages_recompute_text(const Workload& w, const Strategy& s) {
  std::vector<std::string> choices;
  const std::vector<int64_t> layers = stage_layers_of(w, s);
  for (size_t i = 0; i < layers.size(); ++i) {
    const int64_t again = std::min(s.stage_recompute[i], layers[i]);
    choices.push_back(
        again == 0 ? "none" : (again == layers[i] ? "full" : fmt::format("full:{}+none", again)));
  }
  while (choices.size() > 1 && choices.back() == choices[choices.size() - 2]) choices.pop_back();
  return fmt::format("{}", fmt::join(choices, "/"));
}

// The engine counts blocks of a stage, the strategy layers of a rank.
int64_t blocks_again(const Strategy& s) {
  return (s.recompute_layers + s.virtual_stages - 1) / s.virtual_stages;
}

std::string recompute_text(const Workload& w, const Strategy& s) {
  if (!s.stage_recompute.empty()) return stages_recompute_text(w, s);
  if (s.recompute == Recompute::kFull && s.recompute_layers >= 0) {
    return fmt::format("full:{}+none", blocks_again(s));
  }
  if (s.recompute == Recompute::kNone && s.elementwise_again != ElementwiseAgain::kNone) {
    return s.elementwise_again == ElementwiseAgain::kNorms ? "norms" : "light";
  }
  return std::string(name_of(s.recompute));
}

// What comes back of recompute_text(): numbers by stage where it is not the same word for all.
void say_recompute(const Workload& w, Strategy& s) {
  const std::string text = recompute_text(w, s);
  if (s.recompute == Recompute::kSelective) {
    s.elementwise_again = ElementwiseAgain::kNormsAndActivations;
  } else if (s.recompute == Recompute::kFull) {
    s.elementwise_again = ElementwiseAgain::kNone;
    if (s.stage_recompute.empty() && s.recompute_layers >= 0) {
      s.stage_recompute.assign(static_cast<size_t>(s.pp * s.virtual_stages), blocks_again(s));
    }
    const std::vector<int64_t> layers = stage_layers_of(w, s);
    for (size_t i = 0; i < s.stage_recompute.size(); ++i) {
      s.stage_recompute[i] = std::min(s.stage_recompute[i], layers[i]);
    }
    if (text == "none") s.recompute = Recompute::kNone;
    if (text.find_first_of("+/") == text.npos) s.stage_recompute.clear();
  }
  s.recompute_layers = -1;
}

// Whether ep can be made of tp, of cp or none of it, and of ranks of fsdp (validate_experts.h).
bool has_expert_ranks(const Strategy& s) {
  if (s.ep % s.tp != 0) return false;
  const int64_t rest = s.ep / s.tp;
  const int64_t fsdp = data_split(s).fsdp;
  return fsdp % rest == 0 || (rest % s.cp == 0 && fsdp % (rest / s.cp) == 0);
}

std::string_view schedule_name(const Strategy& s) {
  return s.one_micro_batch_at_a_time ? name_of(PipelineKind::kNaive) : name_of(s.schedule);
}

std::string model_text(const ModelSpec& model) {
  return fmt::format("[model]\npreset = \"{}\"\n", model.preset);
}

}  // namespace

std::vector<int64_t> stage_layers_of(const Workload& w, const Strategy& s) {
  if (!s.stage_layers.empty()) return s.stage_layers;
  std::vector<int64_t> layers;
  const int64_t stages = s.pp * s.virtual_stages;
  for (int64_t i = 0; i < stages; ++i) {
    layers.push_back(EvenStages(w.model.layers, stages).layers_of(i));
  }
  return layers;
}

std::string unsayable_choice(const Workload& w, const Strategy& s) {
  if (s.order != RankOrder::kTensorDataPipeline) {
    return fmt::format("ranks in the order {}", name_of(s.order));
  }
  if (s.shard > 0 && s.shard % s.cp != 0) {
    return fmt::format("sharding over {} ranks, a part of cp = {}", s.shard, s.cp);
  }
  if (s.expert_tp > 1) return "experts that are split over tp";
  if (s.ep > 1 && !has_expert_ranks(s)) {
    return fmt::format("ep = {} that is not tp = {} times a part of the replicas", s.ep, s.tp);
  }
  if (w.precision.products == MathType::kF8 || w.precision.products == MathType::kF4) {
    return fmt::format("{} products", name_of(w.precision.products));
  }
  return "";
}

std::string run_file_of(const ModelSpec& model, const Workload& w, const Strategy& s,
                        const std::string& cluster) {
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
                        schedule_name(s), s.virtual_stages, fmt::join(stage_layers_of(w, s), ", "));
  }
  text += fmt::format(
      "\n[train]\nseq_len = {}\nmicro_batch = {}\nglobal_batch = {}\ndtype = \"bf16\"\n"
      "device = \"{}\"\n",
      w.seq_len, s.micro_batch, w.global_batch, name_of(train_device(w.cluster.device.kind)));
  // What is reserved is not a rank's to use. Rounded down: the file must not promise more.
  const int64_t thousandths = usable_bytes(w.cluster) * 125 / (int64_t{1} << 27);
  text += "\n[cluster]\n";
  if (!cluster.empty()) text += fmt::format("name = {}\n", nlohmann::json(cluster).dump());
  text += fmt::format("memory_gib = {}.{:03}\n", thousandths / 1000, thousandths % 1000);
  return text;
}

std::string plan_flags_of(const Workload& w, const Strategy& s) {
  const DataSplit data = data_split(s);
  std::string text = fmt::format("--tp {} --pp {}", s.tp, s.pp);
  if (s.cp > 1) text += fmt::format(" --cp {} --set parallel.cp_kind={}", s.cp, name_of(s.context));
  text += fmt::format(" --dp {}", data.dp);
  if (data.fsdp > 1) text += fmt::format(" --fsdp {}", data.fsdp);
  if (s.ep > 1) text += fmt::format(" --ep {}", s.ep);
  text += fmt::format(" --zero {}", s.zero);
  if (s.zero == 3 && !s.release_after_forward)
    text += " --set parallel.release_after_forward=false";
  if (s.sequence_parallel) text += " --sequence-parallel";
  if (s.pp > 1) {
    text += fmt::format(" --schedule {} --virtual-stages {} --set parallel.stage_layers={}",
                        schedule_name(s), s.virtual_stages, fmt::join(stage_layers_of(w, s), "+"));
  }
  return text + fmt::format(" --recompute {} --micro-batch {} --global-batch {} --seq-len {}",
                            recompute_text(w, s), s.micro_batch, w.global_batch, w.seq_len);
}

Strategy as_run_files_say(const Workload& w, Strategy s) {
  say_recompute(w, s);
  if (s.pp > 1) {
    s.stage_layers = stage_layers_of(w, s);
  } else {
    s.stage_layers.clear();
    s.schedule = PipelineKind::k1F1B;
    s.one_micro_batch_at_a_time = false;
  }
  const DataSplit data = data_split(s);
  s.shard = data.fsdp > 1 && data.dp > 1 ? data.fsdp * s.cp : 0;
  s.expert_tp = 1;
  if (s.cp == 1) s.context = ContextKind::kRing;
  if (s.zero < 3) s.release_after_forward = true;
  return s;
}

}  // namespace tessera
