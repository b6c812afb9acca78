// The Hugging Face folders of tests/data/hf: one tiny model of every family.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera::testing {

inline constexpr const char* kHfModels[] = {"llama-gqa", "llama31-rope", "gpt2",   "mistral-window",
                                            "qwen2",     "qwen3",        "mixtral"};

// Resolved, with the folder's weights.
inline RunSpec hf_model_spec(const std::string& name, DType dtype) {
  const std::string folder = std::string(TESSERA_SOURCE_DIR) + "/tests/data/hf/" + name;
  std::ifstream file(folder + "/config.json");
  const std::string config((std::istreambuf_iterator<char>(file)), {});
  RunSpec spec;
  spec.model = model_from_hf_config(config, folder);
  spec.model.hf = folder;
  spec.train.dtype = dtype;
  spec.train.micro_batch = 2;
  spec.train.seq_len = 24;
  spec.train.threads = 1;
  resolve(spec);
  return spec;
}

}  // namespace tessera::testing
