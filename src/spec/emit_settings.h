// A run as the settings of other training systems: the same model, split, batch and recomputation.
// What a system has no setting for is said in a comment, or under "not_expressed" in JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "spec/run_spec.h"

namespace tessera {

std::span<const std::string_view> settings_systems();  // "megatron", "torchtitan", "deepspeed"

// `spec` must have gone through resolve(). Megatron-LM: flags, one to a line. torchtitan: TOML.
// DeepSpeed: JSON. Throws ConfigError for a system that is not known.
std::string emit_settings(const RunSpec& spec, std::string_view system);

}  // namespace tessera
