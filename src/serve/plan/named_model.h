// The model that somebody wants to serve, by its shape alone: weights are not looked at.
#pragma once

#include <cstdint>
#include <string>

#include "spec/file_reader.h"
#include "spec/run_spec.h"

namespace tessera::serve {

struct NamedModel {
  RunSpec spec;          // its model; plan_serving() takes no more of it
  int64_t made_for = 0;  // tokens of a sequence; 0: nobody says
};

// `name`: of the catalogue, a model file, a folder of Hugging Face or its config.json, or the
// directory of a run. Throws ConfigError for what is none of them.
NamedModel find_named_model(const std::string& name, const FileReader& read);

}  // namespace tessera::serve
