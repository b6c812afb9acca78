#include "spec/run_file/trainable.h"

#include "base/error.h"

namespace tessera {

std::string untrainable_choice(const ModelSpec& m) {
  const auto number = [](std::string_view key, int64_t value, std::string_view what) {
    return fmt::format("model.{} = {} ({})", key, value, what);
  };
  if (m.kv_rank > 0) return number("kv_rank", m.kv_rank, "latent attention");
  if (m.shared_ffn > 0) return number("shared_ffn", m.shared_ffn, "experts for every token");
  if (m.dense_layers > 0) return number("dense_layers", m.dense_layers, "layers without experts");
  if (m.mtp_layers > 0) return number("mtp_layers", m.mtp_layers, "prediction of later tokens");
  if (m.parallel_block) return "model.parallel_block = true (attention beside the MLP)";
  if (m.embedding_norm) return "model.embedding_norm = true";
  if (m.mlp == MlpKind::kRelu) return "model.mlp = \"relu\"";
  if (m.positions == PositionKind::kAlibi) return "model.positions = \"alibi\"";
  return "";
}

void require_trainable(const ModelSpec& model) {
  const std::string choice = untrainable_choice(model);
  require_config(choice.empty(),
                 "{} can be planned but not trained: there is no program for it; leave it out, or "
                 "see 'tessera explain --help' for what can be said without a program",
                 choice);
}

}  // namespace tessera
