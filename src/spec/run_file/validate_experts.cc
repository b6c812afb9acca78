#include "spec/run_file/validate_experts.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "spec/nearby.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

void check_routing(const ModelSpec& model) {
  require_config(model.experts_per_token <= model.experts,
                 "model.experts_per_token = {} but there are {} experts; use experts_per_token = "
                 "{}",
                 model.experts_per_token, model.experts, model.experts);
}

// Groups must lie inside one micro-batch of all replicas, because the gradient of the loss needs
// the statistics of the whole group.
void check_aux_group(const RunSpec& spec) {
  if (spec.model.router_aux_coef == 0) return;
  const int64_t group = spec.train.aux_group;
  const int64_t sequences = spec.train.micro_batch * spec.parallel.replicas();
  require_config(sequences % group == 0 || accumulation(spec) == 1,
                 "train.aux_group = {} does not divide the {} sequences that all replicas have in "
                 "one micro-batch, and the gradient of the load-balancing loss needs whole groups; "
                 "use aux_group = {}, or global_batch = {} for a single micro-batch",
                 group, sequences, either(nearby_divisors(sequences, group)), sequences);
}

// With tp the ranks of a group route different tokens.
void check_tokens(const RunSpec& spec) {
  const ParallelSpec& parallel = spec.parallel;
  const int64_t tokens = spec.train.micro_batch * spec.train.seq_len / parallel.cp;
  const int64_t unit = parallel.tp / std::gcd(parallel.tp, spec.train.micro_batch) * parallel.cp;
  require_config(tokens % parallel.tp == 0,
                 "experts split the {} tokens of a rank's micro-batch over tp = {}, which does not "
                 "divide them; use seq_len = {}",
                 tokens, parallel.tp, either(nearby_multiples(spec.train.seq_len, unit)));
}

}  // namespace

ExpertSplit expert_split(const ParallelSpec& parallel) {
  const int64_t ep = parallel.ep;
  if (ep == 1) return {};
  std::vector<int64_t> valid = {1};
  for (const bool cp : {parallel.cp > 1, false}) {
    const int64_t whole = parallel.tp * (cp ? parallel.cp : 1);
    for (int64_t part = 1; part <= parallel.fsdp; ++part) {
      if (parallel.fsdp % part != 0) continue;
      if (whole * part == ep) return {parallel.tp > 1, cp, part};
      valid.push_back(whole * part);
    }
  }
  std::sort(valid.begin(), valid.end());
  valid.erase(std::unique(valid.begin(), valid.end()), valid.end());
  throw ConfigError(fmt::format(
      "parallel.ep = {} must take tp = {} whole, cp = {} whole or not at all, and a "
      "divisor of fsdp = {}; use ep = {}{}",
      ep, parallel.tp, parallel.cp, parallel.fsdp, either(valid),
      ep % parallel.tp == 0 ? fmt::format(", or fsdp = {} or a multiple of it", ep / parallel.tp)
                            : ""));
}

void resolve_expert_model(ModelSpec& model) {
  const bool mixtral = model.family == ModelFamily::kMixtral;
  require_config(
      !mixtral || model.experts > 0,
      "model.family = \"mixtral\" needs experts; use experts = 8, or family = \"llama\"");
  require_config(mixtral || model.experts == 0,
                 "model.experts = {} but family = {} has none; use family = \"mixtral\"",
                 model.experts, in_quotes(name_of(model.family)));
  require_config(mixtral || (model.shared_ffn == 0 && model.dense_layers == 0),
                 "model.shared_ffn and dense_layers are of models with experts; use family = "
                 "\"mixtral\", or leave them out");
  require_config(mixtral || model.router_aux_coef == 0,
                 "model.router_aux_coef = {} weighs how evenly experts are used, and family = {} "
                 "has none; use family = \"mixtral\", or leave it out",
                 model.router_aux_coef, in_quotes(name_of(model.family)));
  if (!mixtral) return;
  check_routing(model);
  require_config(model.dense_layers < model.layers,
                 "model.dense_layers = {} leaves none of {} layers with experts; use at most {}",
                 model.dense_layers, model.layers, model.layers - 1);
  if (model.moe_ffn == 0) model.moe_ffn = model.ffn;
}

void check_experts(const RunSpec& spec) {
  const ParallelSpec& parallel = spec.parallel;
  require_config(spec.model.experts > 0 || parallel.ep == 1,
                 "parallel.ep = {} but the model has no experts; use ep = 1", parallel.ep);
  if (spec.model.experts == 0) return;
  require_config(
      parallel.moe_capacity == 0 || parallel.moe_capacity >= 1,
      "parallel.moe_capacity = {} is less than an even spread needs; use 1 or more, or 0 "
      "for the worst case",
      parallel.moe_capacity);
  require_config(spec.model.experts % parallel.ep == 0,
                 "parallel.ep = {} does not divide experts = {}; use ep = {}", parallel.ep,
                 spec.model.experts, either(nearby_divisors(spec.model.experts, parallel.ep)));
  expert_split(parallel);
  check_aux_group(spec);
  check_tokens(spec);
}

}  // namespace tessera
