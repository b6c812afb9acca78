// Models by name: TOML files with the keys of a run file's [model], compiled in from
// catalogue/models, or a user's own. docs/models.md describes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spec/file_reader.h"
#include "spec/run_spec.h"

namespace tessera {

// A count as its source states it. Some sources round and some cut digits off: "37B" stands for
// anything between 36e9 and 38e9.
struct PublishedCount {
  double value = 0;  // 0: not stated
  double unit = 1;   // of the last digit
};

struct ModelEntry {
  ModelSpec model;  // head_dim and kv_heads filled in
  std::string source;
  PublishedCount parameters;
  PublishedCount active_parameters;  // of models with experts
};

// Sorted by name.
std::vector<std::string_view> model_names();

// `name` is one of model_names(), a path that ends in .toml, NAME for catalogue/models/NAME.toml
// in the current folder, or a Hugging Face folder or its config.json, of which the shape is taken
// alone. Throws ConfigError: for an unknown name with the nearest known one, for a mistake in a
// file with its place, for files that extend each other in a circle.
ModelEntry find_model(const std::string& name, const FileReader& read = nullptr);

// "; nothing is fetched from the Hub: ..." for what is called as models are there, or by an
// address, and "; a preset has a shape and no weights: ..." for a preset. Empty: for neither.
std::string hub_advice(const std::string& name);

// The config.json of a Hugging Face folder, or of its own path. Where it cannot be read,
// ConfigError also says that nothing is fetched, if it is called as a model of the Hub is.
std::string read_hf_config(const std::string& folder_or_file, const FileReader& read);

}  // namespace tessera
