#include "spec/families.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace tessera {
namespace {

void require_known(const std::string& family) {
  require_config(std::find(kFamilies.begin(), kFamilies.end(), family) != kFamilies.end(),
                 "model.family = {} is not known; use one of {}", in_quotes(family),
                 fmt::join(kFamilies, ", "));
}

}  // namespace

void use_family(ModelSpec& model, const std::string& family) {
  require_known(family);
  const ModelSpec plain;
  model.family = family;
  model.norm = plain.norm;
  model.mlp = plain.mlp;
  model.positions = plain.positions;
  model.max_positions = plain.max_positions;
  model.attention_bias = plain.attention_bias;
  model.mlp_bias = plain.mlp_bias;
  model.qk_norm = plain.qk_norm;
  model.sliding_window = plain.sliding_window;
  model.tied = plain.tied;
  model.norm_eps = plain.norm_eps;
  if (family == "mistral") {
    model.sliding_window = 4096;
  } else if (family == "qwen2") {
    model.attention_bias = "qkv";
    model.norm_eps = 1e-6;
  } else if (family == "qwen3") {
    model.qk_norm = true;
    model.norm_eps = 1e-6;
  } else if (family == "gpt2") {
    model.norm = "layer";
    model.mlp = "gelu";
    model.positions = "learned";
    model.attention_bias = "all";
    model.mlp_bias = true;
    model.tied = true;
  }
}

void check_family(const ModelSpec& model) {
  require_known(model.family);
  const auto need = [&](bool ok, std::string_view what) {
    require_config(ok,
                   "model.family = {} needs {}; for other combinations use family = \"llama\" and "
                   "set the options one by one",
                   in_quotes(model.family), what);
  };
  if (model.family == "mixtral") {
    need(model.mlp == "swiglu", "mlp = \"swiglu\"");
    need(!model.mlp_bias, "mlp_bias = false");
  }
  if (model.family != "gpt2") return;
  need(model.norm == "layer", "norm = \"layer\"");
  need(model.mlp == "gelu", "mlp = \"gelu\"");
  need(model.positions == "learned", "positions = \"learned\"");
  need(model.attention_bias == "all", "attention_bias = \"all\"");
  need(model.mlp_bias, "mlp_bias = true");
  need(!model.qk_norm, "qk_norm = false");
  need(model.sliding_window == 0, "sliding_window = 0");
  need(model.kv_heads == model.heads, fmt::format("kv_heads = heads = {}", model.heads));
  need(model.heads * model.head_dim == model.hidden, "head_dim = hidden / heads");
}

}  // namespace tessera
