// What train.dtype = "fp8" and its recipes go with.
#pragma once

#include <string>

#include "spec/run_spec.h"

namespace tessera {

// Fills in the recipe. ConfigError where something does not go with products of 8 bits.
void resolve_fp8(RunSpec& spec);

// Why a resolved run of another type could not be trained so; empty where it could.
std::string why_not_fp8(RunSpec spec);

}  // namespace tessera
