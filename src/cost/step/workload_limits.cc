#include "cost/step/workload_limits.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "cost/step/to_double.h"

namespace tessera {

void check(const Workload& w) {
  check(w.cluster);
  check(w.engine);
  const ModelShape& m = w.model;
  const auto within = [](std::string_view what, int64_t value, int64_t least, int64_t bits) {
    require_config(value >= least && value <= int64_t{1} << bits,
                   "{} must be from {} to 2^{}, got {}", what, least, bits, value);
  };
  within("model.layers", m.layers, 1, 20);
  within("model.hidden", m.hidden, 1, 24);
  within("model.ffn", m.ffn, 0, 24);
  within("model.heads", m.heads, 1, 20);
  within("model.kv_heads", m.kv_heads, 1, 20);
  within("model.head_dim", m.head_dim, 0, 20);
  within("model.vocab", m.vocab, 1, 31);
  within("model.experts", m.experts, 0, 20);
  within("model.experts_per_token", m.experts_per_token, 0, 20);
  within("model.moe_ffn", m.moe_ffn, 0, 24);
  within("model.shared_ffn", m.shared_ffn, 0, 24);
  within("model.dense_layers", m.dense_layers, 0, 20);
  within("model.mtp_layers", m.mtp_layers, 0, 20);
  within("model.learned_positions", m.learned_positions, 0, 40);
  within("seq_len", w.seq_len, 1, 40);
  within("global_batch", w.global_batch, 1, 40);
  require_config(w.cluster.device.peak(w.precision.products) > 0,
                 "device {} has no {} products: choose another precision", w.cluster.device.name,
                 name_of(w.precision.products));
  const double hidden = to_double(m.hidden), layers = to_double(m.layers);
  const double inner = std::max(to_double(m.ffn) + to_double(m.shared_ffn),
                                to_double(m.moe_ffn) * std::max(1.0, to_double(m.experts)));
  const double attention = to_double(m.heads) * to_double(m.head_dim + m.mla.nope_dim +
                                                          m.mla.rope_dim + m.mla.value_dim);
  const double weights = layers * hidden * (inner + attention) +
                         hidden * (to_double(m.vocab) + to_double(m.learned_positions));
  require_config(weights < 1e16, "the model has about {:g} parameters: more than can be counted",
                 weights);
  const double tokens = to_double(w.seq_len) * to_double(w.global_batch);
  const double chosen = std::max(1.0, to_double(m.experts_per_token));
  const double widest = hidden * chosen + attention + to_double(m.ffn) + to_double(m.shared_ffn) +
                        chosen * to_double(m.moe_ffn);
  require_config(tokens * widest * layers < 1e16 && tokens * to_double(m.vocab) < 1e17 &&
                     tokens * to_double(w.seq_len) * to_double(m.heads) * layers < 1e18,
                 "a step of {:g} tokens of this model is more than can be counted: use a smaller "
                 "global_batch or seq_len (a batch of 4M is 4 million sequences, one of 4Mitok 4 "
                 "Mi tokens)",
                 tokens);
}

}  // namespace tessera
