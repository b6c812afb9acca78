// Models for tests of serving, and what training's own forward says of a text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "serve/plan/serve_plan.h"
#include "train/weights/weights.h"

namespace tessera::serve::testing {

using Text = std::vector<int32_t>;
using Rows = std::vector<std::vector<double>>;  // of logits

struct ServedModel {
  std::string name;
  RunSpec spec;  // resolved, one rank
  std::function<TensorSource(const ParameterLayout&)> weights;
};

// A folder of Hugging Face, of tests/data/hf or of TESSERA_SHARED_DATA.
ServedModel folder_model(const std::string& path);
// Weights by Philox, large enough that logits differ from token to token.
ServedModel random_model(const ModelSpec& model, const std::string& name);

// The folders of tests/data/hf and, where it is there, of TESSERA_SHARED_DATA/hf-tiny.
std::vector<std::string> model_folders();
// Folders with texts that another program has continued: tests/data/greedy, and more where they
// are.
std::vector<std::string> greedy_folders();

// Those of every token of every text, by one rank of training in f64: [text][token][vocab].
std::vector<Rows> reference_logits(const ServedModel& model, const std::vector<Text>& texts);

}  // namespace tessera::serve::testing
