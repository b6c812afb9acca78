#include "spec/hf_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "spec/entry.h"
#include "spec/families.h"

namespace tessera {
namespace {

using nlohmann::json;
using S = RunSpec;

constexpr Range kPositive{1};
constexpr Range kAboveZero{.min = 0, .open_min = true};

// Keys of config.json. An absent or null optional key keeps the default; never so a required one.
constexpr Key kLlamaKeys[] = {
    {"", "num_hidden_layers", [](S& s) -> Field { return &s.model.layers; }, kPositive, {}, true},
    {"", "hidden_size", [](S& s) -> Field { return &s.model.hidden; }, kPositive, {}, true},
    {"", "intermediate_size", [](S& s) -> Field { return &s.model.ffn; }, kPositive, {}, true},
    {"", "num_attention_heads", [](S& s) -> Field { return &s.model.heads; }, kPositive, {}, true},
    {"", "num_key_value_heads", [](S& s) -> Field { return &s.model.kv_heads; }, kPositive},
    {"", "head_dim", [](S& s) -> Field { return &s.model.head_dim; }, kPositive},
    {"", "vocab_size", [](S& s) -> Field { return &s.model.vocab; }, kPositive, {}, true},
    {"", "tie_word_embeddings", [](S& s) -> Field { return &s.model.tied; }},
    {"", "rms_norm_eps", [](S& s) -> Field { return &s.model.norm_eps; }, kAboveZero},
    {"", "initializer_range", [](S& s) -> Field { return &s.model.init_std; }},
    {"", "rope_theta", [](S& s) -> Field { return &s.model.rope.theta; }, kAboveZero},
};

// Keys of model type mixtral. Its intermediate_size is the width of an expert.
constexpr Key kMixtralKeys[] = {
    {"", "num_local_experts", [](S& s) -> Field { return &s.model.experts; }, kPositive, {}, true},
    {"", "num_experts_per_tok", [](S& s) -> Field { return &s.model.experts_per_token; },
     kPositive},
    {"", "router_aux_loss_coef", [](S& s) -> Field { return &s.model.router_aux_coef; }},
};

constexpr Key kGpt2Keys[] = {
    {"", "n_layer", [](S& s) -> Field { return &s.model.layers; }, kPositive, {}, true},
    {"", "n_embd", [](S& s) -> Field { return &s.model.hidden; }, kPositive, {}, true},
    {"", "n_inner", [](S& s) -> Field { return &s.model.ffn; }, kPositive},
    {"", "n_head", [](S& s) -> Field { return &s.model.heads; }, kPositive, {}, true},
    {"", "n_positions", [](S& s) -> Field { return &s.model.max_positions; }, kPositive},
    {"", "vocab_size", [](S& s) -> Field { return &s.model.vocab; }, kPositive, {}, true},
    {"", "tie_word_embeddings", [](S& s) -> Field { return &s.model.tied; }},
    {"", "layer_norm_epsilon", [](S& s) -> Field { return &s.model.norm_eps; }, kAboveZero},
    {"", "initializer_range", [](S& s) -> Field { return &s.model.init_std; }},
};

// Keys of rope_scaling, or of rope_parameters (Transformers 5), when the type is llama3.
constexpr Key kLlama3RopeKeys[] = {
    {"", "factor", [](S& s) -> Field { return &s.model.rope.factor; }, kPositive, {}, true},
    {"",
     "low_freq_factor",
     [](S& s) -> Field { return &s.model.rope.low_freq_factor; },
     kAboveZero,
     {},
     true},
    {"",
     "high_freq_factor",
     [](S& s) -> Field { return &s.model.rope.high_freq_factor; },
     kAboveZero,
     {},
     true},
    {"",
     "original_max_position_embeddings",
     [](S& s) -> Field { return &s.model.rope.original_max_position; },
     kPositive,
     {},
     true},
};
constexpr Key kRopeThetaKey[] = {
    {"", "rope_theta", [](S& s) -> Field { return &s.model.rope.theta; }, kAboveZero},
};

// Settings that change the computation and that this version computes in one way only.
struct Fixed {
  std::string_view name;
  std::string_view only;  // JSON text of the one value; an absent or null key means it
};
constexpr Fixed kLlamaFixed[] = {
    {"hidden_act", "\"silu\""},
    {"quantization_config", "null"},
    {"partial_rotary_factor", "1.0"},
};
constexpr Fixed kGpt2Fixed[] = {
    {"activation_function", "\"gelu_new\""},
    {"quantization_config", "null"},
    {"add_cross_attention", "false"},
    {"scale_attn_weights", "true"},
    {"scale_attn_by_inverse_layer_idx", "false"},
};
constexpr Fixed kMixtralFixed[] = {{"router_jitter_noise", "0.0"}, {"sliding_window", "null"}};
constexpr Fixed kNoBias[] = {{"attention_bias", "false"}, {"mlp_bias", "false"}};

bool absent(const json& object, std::string_view name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null();
}

void read_keys(std::span<const Key> keys, const json& object, const std::string& prefix,
               const std::string& file_name, RunSpec& spec) {
  for (const Key& key : keys) {
    const std::string path = join_path(prefix, key.name);
    if (absent(object, key.name)) {
      require_config(!key.required, "{}: {} is missing", file_name, path);
      continue;
    }
    assign(key, key.field(spec), object[std::string(key.name)], path, file_name, Ranges::kCheck);
  }
}

void check_fixed(std::span<const Fixed> settings, const json& object, const std::string& prefix,
                 const std::string& file_name) {
  for (const Fixed& fixed : settings) {
    if (absent(object, fixed.name)) continue;
    const json& value = object[std::string(fixed.name)];
    require_config(value == json::parse(fixed.only), "{}: {} = {} is not supported; only {} is",
                   file_name, join_path(prefix, fixed.name), value.dump().substr(0, 60),
                   fixed.only);
  }
}

// rope_type, or "type" as older files say.
std::string rope_type(const json& rope, const std::string& path, const std::string& file_name) {
  const std::string key = absent(rope, "rope_type") ? "type" : "rope_type";
  if (absent(rope, key)) return "default";
  require_config(rope[key].is_string(), "{}: {}.{} must be a string, got {}", file_name, path, key,
                 rope[key].type_name());
  return rope[key].get<std::string>();
}

void read_rope(const json& config, const std::string& file_name, RunSpec& spec) {
  for (const std::string path : {"rope_scaling", "rope_parameters"}) {
    if (absent(config, path)) continue;
    const json& rope = config[path];
    require_config(rope.is_object(), "{}: {} must be an object, got {}", file_name, path,
                   rope.type_name());
    const std::string type = rope_type(rope, path, file_name);
    const std::optional<RopeScaling> scaling = choice_named<RopeScaling>(type);
    require_config(scaling.has_value(),
                   "{}: {} has rope type {}; supported are \"default\" and \"llama3\"", file_name,
                   path, in_quotes(type));
    check_fixed(kLlamaFixed, rope, path, file_name);
    read_keys(kRopeThetaKey, rope, path, file_name, spec);
    spec.model.rope.scaling = *scaling;
    if (scaling == RopeScaling::kLlama3) read_keys(kLlama3RopeKeys, rope, path, file_name, spec);
  }
}

// Transformers adds the load-balancing loss only when the router's logits are asked for.
void read_mixtral(const json& config, const std::string& file_name, RunSpec& spec) {
  check_fixed(kMixtralFixed, config, "", file_name);
  spec.model.router_aux_coef = 0.001;  // what Transformers takes when the file does not say
  read_keys(kMixtralKeys, config, "", file_name, spec);
  const bool trained =
      !absent(config, "output_router_logits") && config["output_router_logits"] == json(true);
  if (!trained) spec.model.router_aux_coef = 0;
}

bool read_flag(const json& config, std::string_view name, const std::string& file_name) {
  if (absent(config, name)) return false;
  const json& value = config[std::string(name)];
  require_config(value.is_boolean(), "{}: {} must be true or false, got {}", file_name, name,
                 value.type_name());
  return value.get<bool>();
}

int64_t read_count(const json& config, std::string_view name, int64_t otherwise,
                   const std::string& file_name) {
  if (!config.contains(name)) return otherwise;
  const json& value = config[std::string(name)];
  if (value.is_null()) return 0;
  require_config(value.is_number_integer() && value.get<int64_t>() >= 0,
                 "{}: {} must be an integer from 0, got {}", file_name, name,
                 value.dump().substr(0, 60));
  return value.get<int64_t>();
}

// How many of the layers see a window only.
int64_t windowed_layers(const json& config, const std::string& file_name, int64_t layers) {
  if (absent(config, "layer_types")) {
    if (!config.contains("use_sliding_window")) return layers;
    const int64_t first = read_count(config, "max_window_layers", 28, file_name);
    return std::max<int64_t>(0, layers - first);
  }
  const json& types = config["layer_types"];
  require_config(types.is_array() && static_cast<int64_t>(types.size()) == layers,
                 "{}: layer_types must be an array of num_hidden_layers = {} names", file_name,
                 layers);
  int64_t windowed = 0;
  for (const json& type : types) {
    require_config(type == "full_attention" || type == "sliding_attention",
                   "{}: layer_types has {}; supported are \"full_attention\" and "
                   "\"sliding_attention\"",
                   file_name, type.dump().substr(0, 60));
    windowed += type == "sliding_attention" ? 1 : 0;
  }
  return windowed;
}

void read_window(const json& config, const std::string& file_name, ModelSpec& model) {
  const bool may_slide =
      model.family == ModelFamily::kMistral || read_flag(config, "use_sliding_window", file_name);
  model.sliding_window = may_slide ? read_count(config, "sliding_window", 4096, file_name) : 0;
  if (model.sliding_window == 0) return;
  const int64_t windowed = windowed_layers(config, file_name, model.layers);
  require_config(windowed == 0 || windowed == model.layers,
                 "{}: {} of {} layers have a sliding window; only all or none is supported",
                 file_name, windowed, model.layers);
  if (windowed == 0) model.sliding_window = 0;
}

// What Transformers takes for a key that is not there.
void use_defaults_of_transformers(const json& config, ModelSpec& model) {
  const bool qwen = model.family == ModelFamily::kQwen2 || model.family == ModelFamily::kQwen3;
  model.norm_eps = model.family == ModelFamily::kMixtral ? 1e-5 : 1e-6;
  if (model.family == ModelFamily::kMixtral) model.rope.theta = 1e6;
  if (model.family == ModelFamily::kMistral && !config.contains("num_key_value_heads"))
    model.kv_heads = 8;
  if (qwen && !config.contains("num_key_value_heads")) model.kv_heads = 32;
  if (model.family == ModelFamily::kQwen3 && !config.contains("head_dim")) model.head_dim = 128;
}

void read_llama(const json& config, const std::string& file_name, RunSpec& spec) {
  ModelSpec& model = spec.model;
  check_fixed(kLlamaFixed, config, "", file_name);
  use_defaults_of_transformers(config, model);
  read_keys(kLlamaKeys, config, "", file_name, spec);
  read_rope(config, file_name, spec);
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.family == ModelFamily::kLlama || model.family == ModelFamily::kQwen3) {
    if (read_flag(config, "attention_bias", file_name)) model.attention_bias = AttentionBias::kAll;
  } else {
    check_fixed(kNoBias, config, "", file_name);
  }
  if (model.family == ModelFamily::kLlama)
    model.mlp_bias = read_flag(config, "mlp_bias", file_name);
  if (model.family == ModelFamily::kMixtral) return read_mixtral(config, file_name, spec);
  if (model.family != ModelFamily::kLlama) read_window(config, file_name, model);
}

void read_gpt2(const json& config, const std::string& file_name, RunSpec& spec) {
  check_fixed(kGpt2Fixed, config, "", file_name);
  spec.model.max_positions = 1024;
  read_keys(kGpt2Keys, config, "", file_name, spec);
  if (spec.model.ffn == 0) spec.model.ffn = 4 * spec.model.hidden;
  spec.model.kv_heads = spec.model.heads;
}

}  // namespace

int64_t positions_of_hf_config(std::string_view json_text, const std::string& file_name) {
  const nlohmann::ordered_json config = parse_json(json_text, file_name);
  for (const char* key : {"max_position_embeddings", "n_positions"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_number_integer()) return found->get<int64_t>();
  }
  return 0;
}

std::string hf_config_path(const std::string& folder_or_file) {
  if (folder_or_file.ends_with(".json")) return folder_or_file;
  return folder_or_file + (folder_or_file.ends_with('/') ? "" : "/") + "config.json";
}

std::string hf_folder(const std::string& folder_or_file) {
  constexpr std::string_view kName = "config.json";
  if (folder_or_file == kName) return ".";
  const bool is_file = folder_or_file.ends_with("/config.json");
  return is_file ? folder_or_file.substr(0, folder_or_file.size() - kName.size()) : folder_or_file;
}

ModelSpec model_from_hf_config(std::string_view json_text, const std::string& file_name) {
  const json config = parse_json(json_text, file_name);
  require_config(config.is_object(), "{}: expected an object, got {}", file_name,
                 config.type_name());
  require_config(!absent(config, "model_type") && config["model_type"].is_string(),
                 "{}: model_type is missing; supported are {}", file_name,
                 fmt::join(kNamesOf<ModelFamily>, ", "));
  const auto type = config["model_type"].get<std::string>();
  const std::optional<ModelFamily> family = choice_named<ModelFamily>(type);
  require_config(family.has_value(), "{}: model_type {} is not supported; supported are {}",
                 file_name, in_quotes(type), fmt::join(kNamesOf<ModelFamily>, ", "));
  RunSpec spec;
  use_family(spec.model, *family);
  if (family == ModelFamily::kGpt2) {
    read_gpt2(config, file_name, spec);
  } else {
    read_llama(config, file_name, spec);
  }
  return spec.model;
}

}  // namespace tessera
