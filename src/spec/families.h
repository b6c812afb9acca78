// Families of models: what their blocks are made of.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "spec/run_spec.h"

namespace tessera {

inline constexpr std::array<std::string_view, 6> kFamilies = {"llama", "mistral", "qwen2",
                                                              "qwen3", "gpt2",    "mixtral"};

// Makes `model` one of `family`: its norms, MLP, biases, positions, window and tying. Sizes stay.
void use_family(ModelSpec& model, const std::string& family);

// Files of some families have room for one kind of block only: ConfigError names the option that
// does not fit, and the family that takes it.
void check_family(const ModelSpec& model);

}  // namespace tessera
