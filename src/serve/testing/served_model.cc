#include "serve/testing/served_model.h"

#include <algorithm>
#include <filesystem>

#include "runtime/world.h"
#include "spec/run_file/validate.h"
#include "tensor/element.h"
#include "train/verify/model_folder.h"

namespace tessera::serve::testing {

ServedModel folder_model(const std::string& path) {
  const ModelFolder folder = open_model_folder(path);
  return {std::filesystem::path(path).filename(), folder.spec,
          [path](const ParameterLayout& layout) { return hf_weights(path, layout); }};
}

ServedModel random_model(const ModelSpec& model, const std::string& name) {
  RunSpec spec;
  spec.model = model;
  spec.model.init_std = 0.2;
  spec.train.seq_len = 256;
  spec.train.threads = 1;
  resolve(spec);
  return {name, spec, [spec](const ParameterLayout&) { return initial_weights(spec.model, 7); }};
}

std::vector<std::string> model_folders() {
  std::vector<std::string> folders;
  for (const std::string& root : {std::string(TESSERA_SOURCE_DIR) + "/tests/data/hf",
                                  std::string(TESSERA_SHARED_DATA) + "/hf-tiny"}) {
    if (!std::filesystem::exists(root)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      if (std::filesystem::exists(entry.path() / "config.json")) folders.push_back(entry.path());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::vector<std::string> greedy_folders() {
  std::vector<std::string> folders;
  for (const std::string& root : {std::string(TESSERA_SOURCE_DIR) + "/tests/data/greedy",
                                  std::string(TESSERA_SHARED_DATA) + "/hf-tiny"}) {
    if (!std::filesystem::exists(root)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      if (std::filesystem::exists(entry.path() / "greedy.json")) folders.push_back(entry.path());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::vector<Rows> reference_logits(const ServedModel& model, const std::vector<Text>& texts) {
  size_t longest = 1;
  for (const Text& text : texts) longest = std::max(longest, text.size());
  RunSpec spec = model.spec;
  spec.train.dtype = DType::kF64;
  spec.train.seq_len = static_cast<int64_t>(longest);
  spec.train.micro_batch = spec.train.global_batch = std::ssize(texts);
  spec.train.threads = 1;
  resolve(spec);
  World world(build_step(spec, StepKind::kForward));
  std::vector<Rows> all(texts.size());
  world.run([&](int, Executor& executor) {
    load_weights(executor, world.step(), model.weights(world.step().layout));
    int32_t* const tokens = executor.input(executor.program().tokens);
    for (size_t i = 0; i < texts.size(); ++i) {
      for (size_t t = 0; t < longest; ++t) {
        tokens[i * longest + t] = t < texts[i].size() ? texts[i][t] : 0;
      }
    }
    executor.run({});
    const HostView view = executor.view(executor.program().logits);
    const int64_t columns = view.tensor.dim(1);
    for (size_t i = 0; i < texts.size(); ++i) {
      for (size_t t = 0; t < texts[i].size(); ++t) {
        std::vector<double>& row = all[i].emplace_back();
        for (int64_t v = 0; v < spec.model.vocab; ++v) {
          row.push_back(
              read_element(view.tensor, static_cast<int64_t>(i * longest + t) * columns + v));
        }
      }
    }
  });
  return all;
}

}  // namespace tessera::serve::testing
