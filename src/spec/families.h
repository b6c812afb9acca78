// Families of models: what their blocks are made of.
#pragma once

#include "spec/run_spec.h"

namespace tessera {

// Makes `model` one of `family`: its norms, MLP, biases, positions, window and tying. Sizes stay.
void use_family(ModelSpec& model, ModelFamily family);

// Files of some families have room for one kind of block only: ConfigError names the option that
// does not fit, and the family that takes it.
void check_family(const ModelSpec& model);

}  // namespace tessera
