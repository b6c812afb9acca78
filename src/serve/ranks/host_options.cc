#include "serve/ranks/host_options.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "spec/hf_config.h"
#include "train/machine_defaults.h"
#include "train/verify/model_folder.h"

namespace tessera::serve {
namespace {

// Tokens that the model's own configuration says it was made for; 0: it says nothing.
int64_t positions_of_folder(const ModelFolder& folder) {
  const std::string path = find_beside(folder, "config.json");
  if (path.empty()) return 0;
  std::ifstream in(path, std::ios::binary);
  require_config(in.good(), "cannot read '{}'", path);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return positions_of_hf_config(text, path);
}

}  // namespace

RunSpec fill_options(ServeOptions& options, int64_t ranks_on_host) {
  const ModelFolder folder = open_model_folder(options.model);
  const RunSpec& spec = folder.spec;
  const bool learned = spec.model.positions == PositionKind::kLearned;
  const int64_t made_for = std::max(
      spec.train.seq_len, learned ? spec.model.max_positions : positions_of_folder(folder));
  if (options.max_context == 0) options.max_context = made_for;
  require_config(options.max_context <= made_for,
                 "max_context = {} is more than the {} tokens that '{}' was made for; use {} or "
                 "less",
                 options.max_context, made_for, options.model, made_for);
  const ServingShare share =
      serving_share(ranks_on_host > 0 ? ranks_on_host : options.tp * options.pp);
  if (options.threads == 0) options.threads = share.threads;
  if (options.memory_bytes == 0) options.memory_bytes = share.memory_bytes;
  return spec;
}

}  // namespace tessera::serve
