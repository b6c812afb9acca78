// A run as the settings of other training systems: the same model, split, batch and recomputation.
#pragma once

#include <string>
#include <string_view>

#include "spec/run_spec.h"

namespace tessera {

// `spec` must have gone through resolve(), and have its stage_layers where they are not equal.
// Megatron-LM: flags, one to a line. torchtitan: TOML. DeepSpeed: JSON.
// nanotron: YAML. Throws ConfigError for a
// system that is not known, and for a run that the system's settings cannot say: it names what, and
// what to use instead.
std::string emit_settings(const RunSpec& spec, std::string_view system);

// Whether there is such a system here.
bool can_emit(std::string_view system);

}  // namespace tessera
