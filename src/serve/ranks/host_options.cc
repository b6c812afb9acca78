#include "serve/ranks/host_options.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/json.h"
#include "spec/hf_config.h"
#include "spec/run_file/run_file.h"
#include "train/machine_defaults.h"
#include "train/verify/model_folder.h"

namespace tessera::serve {
namespace {

// Texts of rotary positions end nowhere; plans end here.
constexpr int64_t kMostContext = int64_t{1} << 20;

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

ContextLimits context_limits(const ModelFolder& folder) {
  const RunSpec& spec = folder.spec;
  const bool learned = spec.model.positions == PositionKind::kLearned;
  const int64_t made_for = std::max(
      spec.train.seq_len, learned ? spec.model.max_positions : positions_of_folder(folder));
  return {.made_for = made_for, .most = learned ? made_for : kMostContext};
}

RunSpec fill_options(ServeOptions& options, int64_t ranks_on_host) {
  const ModelFolder folder = open_model_folder(options.model);
  const RunSpec& spec = folder.spec;
  const ContextLimits limits = context_limits(folder);
  if (options.max_context == 0) options.max_context = limits.made_for;
  require_config(options.max_context <= limits.most,
                 "max_context = {} is more than the {} tokens that '{}' has positions for; use {} "
                 "or less",
                 options.max_context, limits.most, options.model, limits.most);
  fill_from_host(options, ranks_on_host);
  return spec;
}

RunSpec fill_options_of_any(ServeOptions& options, int64_t ranks_on_host) {
  if (options.random_model.empty()) return fill_options(options, ranks_on_host);
  fill_from_host(options, ranks_on_host);
  return run_spec_from_json(parse_json(options.random_model, "the model with random weights"));
}

void fill_from_host(ServeOptions& options, int64_t ranks_on_host) {
  const ServingShare share =
      serving_share(ranks_on_host > 0 ? ranks_on_host : options.tp * options.pp);
  if (options.threads == 0) options.threads = share.threads;
  if (options.memory_bytes == 0) options.memory_bytes = share.memory_bytes;
}

}  // namespace tessera::serve
