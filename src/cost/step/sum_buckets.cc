#include "cost/step/sum_buckets.h"

#include <initializer_list>

#include "cost/step/to_double.h"

namespace tessera {
namespace {

// Matrices fill a bucket one after another until it has the bytes that close it.
int64_t buckets_of(const Workload& w, std::initializer_list<int64_t> matrices) {
  int64_t buckets = 0;
  double open = w.engine.sum_bucket_bytes;  // bytes of the last bucket; a closed one is full
  for (const int64_t weights : matrices) {
    if (weights == 0) continue;
    if (open >= w.engine.sum_bucket_bytes) {
      ++buckets;
      open = 0;
    }
    open += to_double(weights * w.precision.gradient_bytes);
  }
  return buckets;
}

bool has_buckets(const Workload& w) { return w.engine.sum_bucket_bytes > 0; }

}  // namespace

SumBuckets buckets_of_layer(const Workload& w, const Strategy& s, bool experts) {
  if (!has_buckets(w)) return {};
  const ModelShape& m = w.model;
  const int64_t query = m.hidden * m.query_width() / s.tp;
  const int64_t keys_and_values = 2 * m.hidden * m.kv_width();
  const bool split = m.kv_heads % s.tp == 0;  // otherwise ranks share heads of keys and values
  const int64_t out = m.hidden * m.value_width() / s.tp;
  const int64_t inputs = m.gated_mlp ? 2 : 1;  // of an MLP's inner values
  const int64_t in = experts ? 0 : inputs * m.hidden * m.ffn / s.tp;
  const int64_t down = experts ? 0 : m.hidden * m.ffn / s.tp;
  SumBuckets buckets;
  buckets.dense = buckets_of(w, {query, split ? keys_and_values / s.tp : 0, out, in, down});
  if (!split) ++buckets.dense;
  buckets.small = 1 + (m.biases ? 1 : 0);  // what is whole on every rank, and biases that are split
  if (!experts) return buckets;
  ++buckets.small;  // the router
  const int64_t expert = m.experts / s.ep * m.hidden * m.moe_ffn / s.expert_tp;
  buckets.experts = buckets_of(w, {inputs * expert, expert});
  return buckets;
}

SumBuckets buckets_of_embedding(const Workload& w) {
  if (!has_buckets(w)) return {};
  return {.dense = 1, .small = w.model.learned_positions > 0 ? 1 : 0};
}

// The table and the norm before it.
SumBuckets buckets_of_head(const Workload& w) {
  if (!has_buckets(w)) return {};
  return {.dense = 1, .small = 1};
}

}  // namespace tessera
