// How plans begin: the model and the mesh in a line each.
#pragma once

#include <cstdint>
#include <string>

#include "graph/mesh.h"
#include "spec/run_spec.h"

namespace tessera {

// "llama-3-8b, 32 layers, hidden 4,096, …: 8,030,261,248 parameters"
std::string model_text(const ModelSpec& model, int64_t num_parameters);
// "pp=2 x tp=8 (16 ranks)"
std::string mesh_text(const Mesh& mesh);

}  // namespace tessera
