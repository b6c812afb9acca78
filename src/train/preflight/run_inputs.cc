#include "train/preflight/run_inputs.h"

#include <filesystem>

#include "base/error.h"
#include "checkpoint/hf_folder.h"
#include "data/corpus.h"
#include "train/samples/chat_samples.h"
#include "train/samples/run_sets.h"
#include "train/weights/weights.h"

namespace tessera {
namespace {

int64_t bytes_of(const std::string& file) {
  return static_cast<int64_t>(std::filesystem::file_size(file));
}

int64_t check_text(const RunSpec& spec) {
  const DataSpec& data = spec.data;
  check_sets(spec);
  if (data.is_sets()) return 0;
  if (!data.chats.empty()) {
    (void)ChatSamples(spec, data.chats);
    if (spec.eval.every == 0) return bytes_of(data.chats);
    for (const ValidSet& valid : data.valid) (void)ChatSamples(spec, valid.path);
    return bytes_of(data.chats);
  }
  require_config(kByteTokens <= spec.model.vocab,
                 "model.vocab is {} but the data has {} byte-level tokens: use vocab >= {}",
                 spec.model.vocab, kByteTokens, kByteTokens);
  const bool synthetic = data.path.empty();
  const int64_t bytes = synthetic ? data.synth_bytes : Corpus::size_of_path(data.path);
  require_samples(synthetic ? "synthetic stories" : data.path, bytes, spec.train.seq_len);
  if (spec.eval.every == 0) return bytes;
  for (const ValidSet& valid : data.valid) {
    require_samples(valid.path, Corpus::size_of_path(valid.path), spec.train.seq_len);
  }
  return bytes;
}

}  // namespace

void check_weights(const RunSpec& spec) {
  const std::string& folder = spec.model.hf;
  if (folder.empty()) return;
  require_config(HfWeights::present(folder),
                 "model.hf: folder '{}' has no weights (model.safetensors, or the files of "
                 "model.safetensors.index.json): use model.init = \"random\" to train its model "
                 "from random ones, or convert the weights to safetensors",
                 folder);
  (void)hf_weights(folder, layout_parameters(spec, mesh_of(spec.parallel)));
}

int64_t check_inputs(const RunSpec& spec) {
  const int64_t bytes = check_text(spec);
  check_weights(spec);
  return bytes;
}

}  // namespace tessera
