#include "spec/families.h"

#include <fmt/format.h>

#include <string_view>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {

void use_family(ModelSpec& model, ModelFamily family) {
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
  if (family == ModelFamily::kMistral) {
    model.sliding_window = 4096;
  } else if (family == ModelFamily::kQwen2) {
    model.attention_bias = AttentionBias::kQkv;
    model.norm_eps = 1e-6;
  } else if (family == ModelFamily::kQwen3) {
    model.qk_norm = true;
    model.norm_eps = 1e-6;
  } else if (family == ModelFamily::kGpt2) {
    model.norm = NormKind::kLayer;
    model.mlp = MlpKind::kGelu;
    model.positions = PositionKind::kLearned;
    model.attention_bias = AttentionBias::kAll;
    model.mlp_bias = true;
    model.tied = true;
  }
}

void check_family(const ModelSpec& model) {
  const auto need = [&](bool ok, std::string_view what) {
    require_config(ok,
                   "model.family = {} needs {}; for other combinations use family = \"llama\" and "
                   "set the options one by one",
                   in_quotes(name_of(model.family)), what);
  };
  if (model.family == ModelFamily::kMixtral) {
    need(model.mlp == MlpKind::kSwiglu, "mlp = \"swiglu\"");
    need(!model.mlp_bias, "mlp_bias = false");
  }
  if (model.family != ModelFamily::kGpt2) return;
  need(model.norm == NormKind::kLayer, "norm = \"layer\"");
  need(model.mlp == MlpKind::kGelu, "mlp = \"gelu\"");
  need(model.positions == PositionKind::kLearned, "positions = \"learned\"");
  need(model.attention_bias == AttentionBias::kAll, "attention_bias = \"all\"");
  need(model.mlp_bias, "mlp_bias = true");
  need(!model.qk_norm, "qk_norm = false");
  need(model.sliding_window == 0, "sliding_window = 0");
  need(model.kv_heads == model.heads, fmt::format("kv_heads = heads = {}", model.heads));
  need(model.heads * model.head_dim == model.hidden, "head_dim = hidden / heads");
}

}  // namespace tessera
