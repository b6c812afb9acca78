#include "train/verify/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/json.h"
#include "spec/catalogue/model_catalogue.h"
#include "spec/hf_config.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "train/machine_defaults.h"
#include "train/verify/checkpoint_model.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostTokens = 1024;  // of a sequence, where only the model has a say

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  require_config(in.good(), "cannot read '{}'", path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

RunSpec spec_of_hf(const std::string& path) {
  const std::string file = path + "/config.json";
  const std::string text = read_file(file);
  RunSpec spec;
  spec.model = model_from_hf_config(text, file);
  const int64_t positions = positions_of_hf_config(text, file);
  if (positions > 0) spec.train.seq_len = std::min(positions, kMostTokens);
  return spec;
}

// What it is computed with, whatever it was trained with.
void make_one_rank(ModelFolder& folder) {
  RunSpec& spec = folder.spec;
  folder.origin = spec.model.hf;
  spec.model.hf = folder.path;
  spec.parallel = ParallelSpec();
  spec.optimizer = OptimizerSpec();
  spec.data = DataSpec();  // a mask of documents wants inputs that a text alone does not have
  spec.eval = EvalSpec();
  spec.train.dtype = DType::kF32;
  spec.train.fp8 = {};
  spec.train.gradients = DType::kF32;
  spec.train.loss_scale = 0;
  spec.train.device = TrainDevice::kCpu;
  spec.train.micro_batch = 1;
  spec.train.global_batch = 1;
  spec.train.aux_group = 1;
  spec.train.threads = 0;
  resolve(spec);
  use_machine_defaults(spec);
}

}  // namespace

ModelFolder open_model_folder(const std::string& path) {
  ModelFolder folder;
  if (const std::optional<CheckpointModel> model = find_checkpoint_model(path)) {
    folder.path = model->path;
    folder.run = model->run;
    folder.is_run = true;
    folder.is_checkpoint = true;
    folder.tokenizer_hash = model->tokenizer_hash;
    folder.spec = model->spec;
    make_one_rank(folder);
    return folder;
  }
  require_config(fs::exists(path),
                 "'{}' does not exist: name the directory of a run, such as runs/demo, a "
                 "checkpoint, or a Hugging Face folder{}",
                 path, hub_advice(path));
  require_config(fs::is_directory(path),
                 "'{}' is a file: name the directory of a run, a checkpoint, or a Hugging Face "
                 "folder",
                 path);
  folder.path = path;
  const std::string resolved = path + "/resolved.json";
  folder.is_run = fs::exists(resolved);
  require_config(folder.is_run || fs::exists(path + "/config.json"),
                 "'{}' holds neither a run (resolved.json) nor a model of Hugging Face "
                 "(config.json): name one that does, such as runs/demo",
                 path);
  folder.spec = folder.is_run ? run_spec_from_json(parse_json(read_file(resolved), resolved))
                              : spec_of_hf(path);
  make_one_rank(folder);
  return folder;
}

std::string find_beside(const ModelFolder& folder, const std::string& name) {
  for (const std::string& place : {folder.path, folder.run, folder.origin}) {
    if (place.empty()) continue;
    std::string path = place + "/" + name;
    if (fs::is_regular_file(path)) return path;
  }
  return "";
}

}  // namespace tessera
