#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "spec/entry.h"
#include "spec/run_file.h"

namespace tessera {
namespace {

using nlohmann::json;
using S = RunSpec;

constexpr Range kPositive{1};
constexpr Range kAboveZero{.min = 0, .open_min = true};

// Keys of config.json. An absent or null optional key keeps the default; never so a required one.
constexpr Key kConfigKeys[] = {
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

// Of model type mixtral. Its intermediate_size is the width of an expert.
constexpr Key kMixtralKeys[] = {
    {"", "num_local_experts", [](S& s) -> Field { return &s.model.experts; }, kPositive, {}, true},
    {"", "num_experts_per_tok", [](S& s) -> Field { return &s.model.experts_per_token; },
     kPositive},
    {"", "router_aux_loss_coef", [](S& s) -> Field { return &s.model.router_aux_coef; }},
};

// Of rope_scaling, or of rope_parameters (Transformers 5), when the type is llama3.
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
constexpr Fixed kFixed[] = {
    {"attention_bias", "false"},      {"mlp_bias", "false"},
    {"hidden_act", "\"silu\""},       {"quantization_config", "null"},
    {"partial_rotary_factor", "1.0"},
};

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

void check_one(const Fixed& fixed, const json& object, const std::string& prefix,
               const std::string& file_name) {
  if (absent(object, fixed.name)) return;
  const json& value = object[std::string(fixed.name)];
  require_config(value == json::parse(fixed.only), "{}: {} = {} is not supported; only {} is",
                 file_name, join_path(prefix, fixed.name), value.dump().substr(0, 60), fixed.only);
}

void check_fixed(const json& object, const std::string& prefix, const std::string& file_name) {
  for (const Fixed& fixed : kFixed) check_one(fixed, object, prefix, file_name);
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
    require_config(type == "default" || type == "llama3",
                   "{}: {} has rope type {}; supported are \"default\" and \"llama3\"", file_name,
                   path, in_quotes(type));
    check_fixed(rope, path, file_name);
    read_keys(kRopeThetaKey, rope, path, file_name, spec);
    spec.model.rope.llama3_scaling = type == "llama3";
    if (type == "llama3") read_keys(kLlama3RopeKeys, rope, path, file_name, spec);
  }
}

// Transformers adds the load-balancing loss only when the router's logits are asked for.
void read_mixtral(const json& config, const std::string& file_name, RunSpec& spec) {
  for (const Fixed& fixed :
       {Fixed{"router_jitter_noise", "0.0"}, Fixed{"sliding_window", "null"}}) {
    check_one(fixed, config, "", file_name);
  }
  spec.model.router_aux_coef = 0.001;  // what Transformers takes when the file does not say
  read_keys(kMixtralKeys, config, "", file_name, spec);
  const bool trained =
      !absent(config, "output_router_logits") && config["output_router_logits"] == json(true);
  if (!trained) spec.model.router_aux_coef = 0;
}

}  // namespace

ModelSpec model_from_hf_config(std::string_view json_text, const std::string& file_name) {
  const json config = parse_json(json_text, file_name);
  require_config(config.is_object(), "{}: expected an object, got {}", file_name,
                 config.type_name());
  require_config(!absent(config, "model_type") && config["model_type"].is_string(),
                 "{}: model_type is missing; \"llama\" and \"mixtral\" are supported", file_name);
  const auto type = config["model_type"].get<std::string>();
  require_config(type == "llama" || type == "mixtral",
                 "{}: model_type {} is not supported; \"llama\" and \"mixtral\" are", file_name,
                 in_quotes(type));
  check_fixed(config, "", file_name);

  RunSpec spec;
  // What Transformers takes for a model that does not say.
  spec.model.norm_eps = type == "mixtral" ? 1e-5 : 1e-6;
  if (type == "mixtral") spec.model.rope.theta = 1e6;
  read_keys(kConfigKeys, config, "", file_name, spec);
  read_rope(config, file_name, spec);
  spec.model.family = type;
  if (type == "mixtral") read_mixtral(config, file_name, spec);
  if (spec.model.kv_heads == 0) spec.model.kv_heads = spec.model.heads;
  return spec.model;
}

}  // namespace tessera
