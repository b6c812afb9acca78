// config.json for a model of ours, so that a folder with it and the weights is a Hugging Face
// model.
#include <nlohmann/json.hpp>
#include <utility>

#include "spec/families.h"
#include "spec/run_file/run_file.h"

namespace tessera {
namespace {

using nlohmann::ordered_json;

// Whether the family's config.json has a word for every choice of the model.
bool is_expressible(const ModelSpec& m) {
  const ModelFamily family = m.family;
  if (family == ModelFamily::kGpt2) return true;  // resolve() takes no other blocks
  const bool plain =
      m.norm == NormKind::kRms && m.mlp == MlpKind::kSwiglu && m.positions == PositionKind::kRope;
  if (!plain || m.qk_norm != (family == ModelFamily::kQwen3)) return false;
  if (m.mlp_bias && family != ModelFamily::kLlama) return false;
  if (m.sliding_window > 0 && (family == ModelFamily::kLlama || family == ModelFamily::kMixtral))
    return false;
  if (family == ModelFamily::kQwen2) return m.attention_bias == AttentionBias::kQkv;
  const bool may_have_biases = family == ModelFamily::kLlama || family == ModelFamily::kQwen3;
  return m.attention_bias == AttentionBias::kNone ||
         (may_have_biases && m.attention_bias == AttentionBias::kAll);
}

std::string architecture(ModelFamily family) {
  if (family == ModelFamily::kGpt2) return "GPT2LMHeadModel";
  std::string name(name_of(family));
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name + "ForCausalLM";
}

ordered_json gpt2_config(const ModelSpec& m) {
  return {{"activation_function", "gelu_new"},
          {"n_layer", m.layers},
          {"n_embd", m.hidden},
          {"n_inner", m.ffn},
          {"n_head", m.heads},
          {"n_positions", m.max_positions},
          {"layer_norm_epsilon", m.norm_eps}};
}

// As Transformers 5 reads it ("rope_parameters"), and as version 4 does.
void add_rope(const RopeSpec& rope, ordered_json& json) {
  ordered_json scaling = nullptr;
  if (rope.scaling == RopeScaling::kLlama3) {
    scaling = {{"rope_type", "llama3"},
               {"factor", rope.factor},
               {"low_freq_factor", rope.low_freq_factor},
               {"high_freq_factor", rope.high_freq_factor},
               {"original_max_position_embeddings", rope.original_max_position}};
  }
  json["rope_theta"] = rope.theta;
  json["rope_scaling"] = scaling;
  ordered_json parameters = scaling.is_null() ? ordered_json{{"rope_type", "default"}} : scaling;
  parameters["rope_theta"] = rope.theta;
  json["rope_parameters"] = std::move(parameters);
}

void add_window(const ModelSpec& m, ordered_json& json) {
  const bool windowed = m.sliding_window > 0;
  json["sliding_window"] = windowed ? ordered_json(m.sliding_window) : ordered_json(nullptr);
  if (m.family == ModelFamily::kMistral) return;
  json["use_sliding_window"] = windowed;
  json["max_window_layers"] = windowed ? 0 : m.layers;
}

ordered_json llama_config(const ModelSpec& m, int64_t seq_len) {
  ordered_json json = {{"hidden_act", "silu"},           {"num_hidden_layers", m.layers},
                       {"hidden_size", m.hidden},        {"intermediate_size", m.ffn},
                       {"num_attention_heads", m.heads}, {"num_key_value_heads", m.kv_heads},
                       {"head_dim", m.head_dim},         {"max_position_embeddings", seq_len},
                       {"rms_norm_eps", m.norm_eps}};
  add_rope(m.rope, json);
  const bool says_bias = m.family == ModelFamily::kLlama || m.family == ModelFamily::kQwen3;
  if (says_bias) json["attention_bias"] = m.attention_bias == AttentionBias::kAll;
  if (m.family == ModelFamily::kLlama) json["mlp_bias"] = m.mlp_bias;
  if (m.family == ModelFamily::kMixtral) {
    json["num_local_experts"] = m.experts;
    json["num_experts_per_tok"] = m.experts_per_token;
    json["router_aux_loss_coef"] = m.router_aux_coef;
    json["output_router_logits"] = m.router_aux_coef > 0;
    json["sliding_window"] = nullptr;
  } else if (m.family != ModelFamily::kLlama) {
    add_window(m, json);
  }
  return json;
}

}  // namespace

std::optional<ordered_json> hf_config(const RunSpec& spec) {
  const ModelSpec& m = spec.model;
  if (!is_expressible(m)) return std::nullopt;
  ordered_json json = {{"architectures", {architecture(m.family)}},
                       {"model_type", name_of(m.family)}};
  json.update(m.family == ModelFamily::kGpt2 ? gpt2_config(m)
                                             : llama_config(m, spec.train.seq_len));
  json["vocab_size"] = m.vocab;
  json["tie_word_embeddings"] = m.tied;
  json["initializer_range"] = m.init_std;
  return json;
}

}  // namespace tessera
