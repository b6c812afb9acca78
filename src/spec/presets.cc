#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "spec/families.h"
#include "spec/run_file.h"

namespace tessera {
namespace {

// Llama 3.1 and 3.2 stretch the rotary frequencies by this factor; 0: not at all.
struct Preset {
  std::string_view name;
  int64_t layers, hidden, ffn, heads, kv_heads, vocab;
  bool tied;
  double rope_theta;
  double rope_factor;
  const char* family = "llama";
  int64_t head_dim = 0;       // 0: hidden / heads
  int64_t max_positions = 0;  // learned positions only
  int64_t experts = 0;
};

// Shapes as in the config.json of the published models. tiny-4m is ours: bytes as tokens, small
// enough for a laptop.
constexpr Preset kPresets[] = {
    {"tiny-4m", 4, 256, 688, 8, 4, 256, true, 1e4, 0},
    {"llama-2-7b", 32, 4096, 11008, 32, 32, 32000, false, 1e4, 0},
    {"llama-2-13b", 40, 5120, 13824, 40, 40, 32000, false, 1e4, 0},
    {"llama-2-70b", 80, 8192, 28672, 64, 8, 32000, false, 1e4, 0},
    {"llama-3-8b", 32, 4096, 14336, 32, 8, 128256, false, 5e5, 0},
    {"llama-3-70b", 80, 8192, 28672, 64, 8, 128256, false, 5e5, 0},
    {"llama-3.1-8b", 32, 4096, 14336, 32, 8, 128256, false, 5e5, 8},
    {"llama-3.1-70b", 80, 8192, 28672, 64, 8, 128256, false, 5e5, 8},
    {"llama-3.1-405b", 126, 16384, 53248, 128, 8, 128256, false, 5e5, 8},
    {"llama-3-405b", 126, 16384, 53248, 128, 8, 128256, false, 5e5, 8},  // the same model
    {"llama-3.2-1b", 16, 2048, 8192, 32, 8, 128256, true, 5e5, 32},
    {"llama-3.2-3b", 28, 3072, 8192, 24, 8, 128256, true, 5e5, 32},
    {"gpt2", 12, 768, 3072, 12, 12, 50257, true, 1e4, 0, "gpt2", 0, 1024},
    {"gpt2-medium", 24, 1024, 4096, 16, 16, 50257, true, 1e4, 0, "gpt2", 0, 1024},
    {"gpt2-large", 36, 1280, 5120, 20, 20, 50257, true, 1e4, 0, "gpt2", 0, 1024},
    {"gpt2-xl", 48, 1600, 6400, 25, 25, 50257, true, 1e4, 0, "gpt2", 0, 1024},
    {"mistral-7b", 32, 4096, 14336, 32, 8, 32000, false, 1e4, 0, "mistral"},
    {"qwen2-0.5b", 24, 896, 4864, 14, 2, 151936, true, 1e6, 0, "qwen2"},
    {"qwen2-7b", 28, 3584, 18944, 28, 4, 152064, false, 1e6, 0, "qwen2"},
    {"qwen3-0.6b", 28, 1024, 3072, 16, 8, 151936, true, 1e6, 0, "qwen3", 128},
    {"mixtral-8x7b", 32, 4096, 14336, 32, 8, 32000, false, 1e6, 0, "mixtral", 0, 0, 8},
    {"qwen3-8b", 36, 4096, 12288, 32, 8, 151936, false, 1e6, 0, "qwen3", 128},
};

std::vector<std::string_view> names() {
  std::vector<std::string_view> result;
  for (const Preset& preset : kPresets) result.push_back(preset.name);
  return result;
}

}  // namespace

ModelSpec model_preset(const std::string& name) {
  const auto* found = std::find_if(std::begin(kPresets), std::end(kPresets),
                                   [&](const Preset& preset) { return preset.name == name; });
  if (found == std::end(kPresets)) {
    const std::string nearest = nearest_name(name, names());
    throw ConfigError(
        fmt::format("unknown model preset {}{}; known presets: {}", in_quotes(name),
                    nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest),
                    fmt::join(names(), ", ")));
  }
  ModelSpec model;
  use_family(model, found->family);
  model.preset = name;
  model.layers = found->layers;
  model.hidden = found->hidden;
  model.ffn = found->ffn;
  model.heads = found->heads;
  model.kv_heads = found->kv_heads;
  model.head_dim = found->head_dim > 0 ? found->head_dim : found->hidden / found->heads;
  model.max_positions = found->max_positions;
  model.experts = found->experts;
  model.vocab = found->vocab;
  model.tied = found->tied;
  model.rope.theta = found->rope_theta;
  model.rope.llama3_scaling = found->rope_factor > 0;
  if (model.rope.llama3_scaling) model.rope.factor = found->rope_factor;
  return model;
}

std::vector<std::string> model_preset_names() {
  const auto views = names();
  return {views.begin(), views.end()};
}

}  // namespace tessera
