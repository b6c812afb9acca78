// A trained model as a folder that the programs of Hugging Face load.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera {

struct ExportOptions {
  std::string source;                   // the directory of a run, a Hugging Face folder, or a
                                        // checkpoint
  std::string out;                      // must not exist
  int64_t shard_bytes = 5'000'000'000;  // of tensors in one file, at most
  // Called with the folder before its logits are checked: tests plant mistakes there.
  std::function<void(const std::string& folder)> on_written = {};
};

struct ExportReport {
  std::vector<std::string> files;  // that the folder has, sorted
  int64_t tensors = 0;
  int64_t bytes = 0;         // of all tensors
  int64_t checked = 0;       // logits that were compared
  double largest_error = 0;  // of them, relative
};

// config.json, the weights (in one file, or in several with an index), generation_config.json, and
// what there is of the tokenizer. Tensors are copied byte for byte, one in memory at a time. The
// folder is then loaded as anyone would load it, and its logits are compared with those of the
// source: only then it gets its name. Throws ConfigError for what cannot be exported, and Error
// where something cannot be written or the logits differ; nothing is left behind.
ExportReport export_hf(const ExportOptions& options);

}  // namespace tessera
