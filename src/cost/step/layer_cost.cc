#include "cost/step/layer_cost.h"

#include <algorithm>

#include "base/rounding.h"
#include "cost/step/collective_time.h"
#include "cost/step/op_time.h"
#include "cost/step/to_double.h"

namespace tessera {
namespace {

bool is_quantized(MathType type) { return type == MathType::kF8 || type == MathType::kF4; }

// Adds up the ops of one layer, each as a method that says what runs and what is kept.
class LayerSum {
 public:
  LayerSum(const Workload& workload, const Strategy& strategy)
      : w_(workload),
        s_(strategy),
        device_(workload.cluster.device),
        engine_(workload.engine),
        tokens_(ceil_div(workload.seq_len * strategy.micro_batch, strategy.cp)),
        split_tokens_(strategy.sequence_parallel ? ceil_div(tokens_, strategy.tp) : tokens_),
        element_(workload.precision.activation_bytes) {}

  // y = x * W for rows x of `inner` columns: forward, and both products of backward.
  void product(int64_t rows, int64_t columns, int64_t inner, int64_t batch = 1) {
    product_of(w_.precision.products, rows, columns, inner, batch);
  }

  void product_of(MathType type, int64_t rows, int64_t columns, int64_t inner, int64_t batch) {
    cost_.forward_s += product_s(device_, engine_, type, rows, columns, inner, batch);
    cost_.input_grad_s += product_s(device_, engine_, type, rows, inner, columns, batch);
    weight_product(type, columns, inner, rows, batch);
    cost_.forward_flops +=
        2.0 * to_double(rows) * to_double(columns) * to_double(inner) * to_double(batch);
    if (is_quantized(type)) quantize(rows, columns, inner, batch);
    cost_.largest_weights += columns * inner;
    add_to_gradients(columns * inner * batch);
  }

  // Few rows make a product that its result bounds: gradients are written, or added to where the
  // product does that as well.
  void weight_product(MathType type, int64_t columns, int64_t inner, int64_t rows, int64_t batch) {
    const double alone_s = product_s(device_, engine_, type, columns, inner, rows, batch);
    const bool adds = engine_.added_gradient_bytes + engine_.gradient_sum_passes == 0;
    if (!adds) {
      cost_.weight_grad_s += alone_s;
      return;
    }
    const double result = to_double(columns * inner * batch * w_.precision.gradient_bytes);
    const double operands = to_double(element_ * rows * (columns + inner) * batch);
    const double first_s = std::max(alone_s, memory_s(device_, operands + result));
    cost_.weight_grad_s += first_s;
    cost_.accumulate_s += std::max(first_s, memory_s(device_, operands + 2 * result)) - first_s;
  }

  void add_to_gradients(int64_t weights) {
    if (!w_.precision.adds_gradients_apart) return;
    const double bytes =
        to_double(weights) * (engine_.added_gradient_bytes +
                              engine_.gradient_sum_passes * to_double(w_.precision.gradient_bytes));
    cost_.accumulate_s +=
        bytes / (device_.memory_bandwidth.value * device_.memory_efficiency.value);
  }

  void moves(double forward_bytes, double backward_bytes) {
    cost_.forward_s += memory_s(device_, forward_bytes);
    cost_.input_grad_s += memory_s(device_, backward_bytes);
  }

  void attention() {
    const ModelShape& m = w_.model;
    AttentionSizes shape;
    const int64_t heads = std::max<int64_t>(1, m.heads / s_.tp);
    shape.batch_heads = s_.micro_batch * heads;
    shape.queries = ceil_div(w_.seq_len, s_.cp);
    shape.keys = w_.seq_len;
    shape.query_dim = m.query_width() / m.heads;
    shape.value_dim = m.value_width() / m.heads;
    const bool flash = w_.attention != AttentionKind::kUnfused;
    AttentionTime time = flash ? flash_attention_s(device_, engine_, shape)
                               : unfused_attention_s(device_, engine_, shape);
    if (w_.attention == AttentionKind::kPortableFlash) {
      time.forward_s *= device_.portable_attention_slowdown.value;
      time.backward_s *= device_.portable_attention_slowdown.value;
    }
    if (s_.cp > 1 && s_.context == ContextKind::kRing) add_ring_steps(time, shape);
    cost_.forward_s += time.forward_s;
    cost_.input_grad_s += time.backward_s;
    cost_.attention_forward_s += time.forward_s;
    const double scores =
        to_double(shape.batch_heads) * to_double(shape.queries) * to_double(shape.keys);
    const double flops =
        2.0 * scores * to_double(shape.query_dim + shape.value_dim) * (flash ? shape.seen : 1.0);
    cost_.forward_flops += flops;
    cost_.attention_forward_flops += flops;
    if (flash) {
      keep(4 * shape.batch_heads * shape.queries);  // sums of exponentials
    } else {
      // Probabilities before and after dropout, and its mask.
      score_bytes_ += (2 * element_ + 1) * shape.batch_heads * shape.queries * shape.keys;
    }
  }

  // A ring works through the keys in cp parts: every part starts kernels of its own and adds its
  // result to what the parts before gave, in 32 bits.
  void add_ring_steps(AttentionTime& time, const AttentionSizes& shape) {
    const double steps = to_double(s_.cp);
    const double rows = to_double(shape.batch_heads) * to_double(shape.queries);
    const double output = rows * to_double(shape.value_dim);
    const double gradients = rows * to_double(shape.query_dim);
    time.forward_s += steps * memory_s(device_, engine_.ring_merge_bytes * output);
    time.backward_s += steps * memory_s(device_, engine_.ring_merge_bytes * gradients);
    const double part = to_double(shape.keys) / steps;
    const double fill = 1 + engine_.attention_fill / part;
    time.forward_s *= fill;
    time.backward_s *= fill;
  }

  void keep(int64_t bytes) { kept_bytes_ += bytes; }

  // Sums or gathers [tokens, hidden] over tp around a pair of products: forward and backward.
  void tensor_parallel_pair() {
    if (s_.tp == 1) return;
    const RankGroup group{s_.tp, strides_of(s_).tp};
    const double bytes = to_double(element_ * tokens_ * w_.model.hidden);
    const double share = to_double(s_.tp - 1) / to_double(s_.tp);
    if (!s_.sequence_parallel) {
      const double sum = all_reduce_s(w_.cluster, group, bytes);
      cost_.forward_comm.add(CommAxis::kTensor, sum, 2 * share * bytes);
      cost_.backward_comm.add(CommAxis::kTensor, sum, 2 * share * bytes);
      cost_.tensor_backward_s += sum;
      return;
    }
    const double gather = all_gather_s(w_.cluster, group, bytes);
    cost_.forward_comm.add(CommAxis::kTensor, 2 * gather, 2 * share * bytes);
    const double back = engine_.sequence_gathers_backward;
    cost_.backward_comm.add(CommAxis::kTensor, back * gather, back * share * bytes);
    cost_.tensor_backward_s += back * gather;
    // What is computed again gathers the input for the weight gradient as well.
    if (engine_.skips_last_product != 0 && back > 2) {
      cost_.once_comm.add(CommAxis::kTensor, gather, share * bytes);
    }
  }

  // Around experts, whose tokens are split over tp: they stay split by sequence, or every rank
  // gathers what the others have computed.
  void tensor_parallel_experts() {
    if (engine_.expert_tokens_split == 0) return tensor_parallel_pair();
    if (s_.tp == 1 || s_.sequence_parallel) return;
    const double bytes = to_double(element_ * tokens_ * w_.model.hidden);
    const double share = to_double(s_.tp - 1) / to_double(s_.tp);
    const double gather = all_gather_s(w_.cluster, RankGroup{s_.tp, strides_of(s_).tp}, bytes);
    cost_.forward_comm.add(CommAxis::kTensor, gather, share * bytes);
    cost_.backward_comm.add(CommAxis::kTensor, gather, share * bytes);
  }

  // The product of `inner` columns at the end of a layer, and what brings its parts together.
  void skip_last_product(int64_t inner) {
    cost_.once_s =
        product_s(device_, engine_, w_.precision.products, tokens_, w_.model.hidden, inner);
    if (s_.tp == 1) return;
    const RankGroup group{s_.tp, strides_of(s_).tp};
    const double bytes = to_double(element_ * tokens_ * w_.model.hidden);
    const double share = to_double(s_.tp - 1) / to_double(s_.tp);
    if (s_.sequence_parallel) {
      cost_.once_comm.add(CommAxis::kTensor, reduce_scatter_s(w_.cluster, group, bytes),
                          share * bytes);
    } else {
      cost_.once_comm.add(CommAxis::kTensor, all_reduce_s(w_.cluster, group, bytes),
                          2 * share * bytes);
    }
  }

  void context_parallel() {
    if (s_.cp == 1) return;
    const ModelShape& m = w_.model;
    const RankGroup group{s_.cp, strides_of(s_).data};
    const int64_t kv = m.latent ? (m.query_width() + m.value_width()) / s_.tp : 2 * key_columns();
    const double local = to_double(element_ * tokens_ * kv);
    const double all = local * to_double(s_.cp);
    const double share = to_double(s_.cp - 1) / to_double(s_.cp);
    if (s_.context == ContextKind::kUlysses) {
      const int64_t width = (m.query_width() + m.value_width()) / s_.tp + kv;
      const double bytes = to_double(element_ * tokens_ * width);
      const double swap = all_to_all_s(w_.cluster, group, bytes);
      cost_.forward_comm.add(CommAxis::kContext, swap, share * bytes);
      cost_.backward_comm.add(CommAxis::kContext, swap, share * bytes);
      return;
    }
    const double gather = all_gather_s(w_.cluster, group, all);
    if (s_.context == ContextKind::kRing) return ring(group, gather, local);
    const double back = engine_.context_gathers_backward;
    cost_.forward_comm.add(CommAxis::kContext, gather, share * all);
    cost_.backward_comm.add(CommAxis::kContext, back * gather, back * share * all);
  }

  // Keys and values go round once in each direction; backward takes their gradients along. Every
  // part travels while the part before it is worked on.
  void ring(const RankGroup& group, double gather, double local) {
    const double hops = to_double(s_.cp - 1);
    const double forward = std::max(gather, hops * shift_s(w_.cluster, group, local));
    const double gradient_hops =
        engine_.ring_gradient_width * (engine_.ring_gradients_return != 0 ? hops + 1 : hops);
    const double rounds = 1 + gradient_hops / hops;
    const double backward = rounds * forward;
    cost_.forward_comm.add(
        CommAxis::kContext,
        std::max(forward / to_double(s_.cp), forward - cost_.attention_forward_s), hops * local);
    cost_.backward_comm.add(
        CommAxis::kContext,
        std::max(backward / to_double(s_.cp),
                 backward - engine_.flash_backward_products * cost_.attention_forward_s),
        rounds * hops * local);
  }

  // A token goes once to each rank that has experts of its choice, and once to each node, from
  // where it is spread; sums come back the same way. `rows` has one row for each choice.
  void expert_exchange(double rows) {
    const RankGroup group{s_.ep, expert_strides_of(s_).ep};
    const double copies = exchanged_per_choice();
    const double node_copies =
        engine_.exchanges_room != 0 ? copies : copies_per_choice(links_of(w_.cluster, group).outer);
    const double bytes = copies * rows * to_double(element_ * w_.model.hidden);
    const double share = to_double(s_.ep - 1) / to_double(s_.ep);
    double swap = all_to_all_s(w_.cluster, group, bytes, node_copies / copies);
    if (w_.overlap.experts) swap *= 1 - engine_.overlap_window * (1 - engine_.overlap_slowdown);
    cost_.forward_comm.add(CommAxis::kExpert, 2 * swap, 2 * share * bytes);
    cost_.backward_comm.add(CommAxis::kExpert, 2 * swap, 2 * share * bytes);
  }

  // What is kept with each way of recomputing; `input` is a layer's input.
  LayerCost finish(int64_t input_bytes) {
    for (const Recompute kind : {Recompute::kNone, Recompute::kNorms, Recompute::kLight}) {
      cost_.saved_bytes[static_cast<size_t>(kind)] = kept_bytes_ + score_bytes_;
    }
    cost_.saved_bytes[static_cast<size_t>(Recompute::kSelective)] = kept_bytes_;
    cost_.saved_bytes[static_cast<size_t>(Recompute::kFull)] = input_bytes;
    const double op_s = device_.host_op_s.value;
    cost_.host_forward_s += engine_.host_ops_forward * op_s;
    cost_.host_backward_s += engine_.host_ops_backward * op_s;
    cost_.waits_for_host = engine_.kernels_wait_for_host != 0;
    cost_.backward_comm.seconds[static_cast<size_t>(CommAxis::kTensor)] -=
        cost_.tensor_hidden_s(engine_.tensor_hidden_backward);
    return cost_;
  }

  // The host learns from the device how many tokens an expert has before it can issue the products
  // of that expert: one by one, while the device has nothing else to do. Backward knows.
  void wait_for_counts() {
    const double op_s = device_.host_op_s.value;
    const double each = is_quantized(w_.precision.products) ? engine_.host_ops_per_quantized_expert
                                                            : engine_.host_ops_per_expert;
    const double local = to_double(w_.model.experts / s_.ep);
    cost_.host_forward_s += engine_.host_ops_experts * op_s;
    cost_.host_backward_s += engine_.host_ops_experts * op_s;
    cost_.host_wait_s = (engine_.host_ops_waiting + each * local) * op_s;
  }

  // Rows that are exchanged for each choice. Where they have a fixed size, there is room for every
  // choice that could fall on the experts of a rank.
  [[nodiscard]] double exchanged_per_choice() const {
    if (engine_.exchanges_room == 0) return copies_per_choice(s_.ep);
    const int64_t most = std::min(w_.model.experts_per_token, w_.model.experts / s_.ep);
    return to_double(s_.ep * most) / to_double(w_.model.experts_per_token);
  }

  // Places that a token's experts lie on, of its experts, where all `places` are equally likely.
  [[nodiscard]] double copies_per_choice(int64_t places) const {
    double missed = 1;  // a place is chosen by none
    for (int64_t i = 0; i < w_.model.experts_per_token; ++i) missed *= 1 - 1 / to_double(places);
    return to_double(places) * (1 - missed) / to_double(w_.model.experts_per_token);
  }

  // Columns of the keys that a rank has. Where tp does not divide their heads, ranks share copies.
  [[nodiscard]] int64_t key_columns() const {
    const ModelShape& m = w_.model;
    if (engine_.whole_keys_on_tp != 0 && m.kv_heads % s_.tp != 0) return m.kv_width();
    return std::max(m.kv_width() / s_.tp, m.head_dim);
  }

  [[nodiscard]] int64_t tokens() const { return tokens_; }
  [[nodiscard]] int64_t split_tokens() const { return split_tokens_; }
  [[nodiscard]] int64_t element() const { return element_; }
  LayerCost& cost() { return cost_; }

 private:
  void quantize(int64_t rows, int64_t columns, int64_t inner, int64_t batch) {
    const double input = to_double(rows) * to_double(inner) * to_double(batch);
    const double output = to_double(rows) * to_double(columns) * to_double(batch);
    moves(engine_.quantize_bytes * input, engine_.quantize_bytes * output);
  }

  const Workload& w_;
  const Strategy& s_;
  const DeviceSpec& device_;
  const EngineNumbers& engine_;
  int64_t tokens_;        // of a micro-batch, on this rank
  int64_t split_tokens_;  // where sequence parallelism splits them over tp
  int64_t element_;
  int64_t kept_bytes_ = 0;
  int64_t score_bytes_ = 0;
  LayerCost cost_;
};

void add_attention(LayerSum& sum, const Workload& w, const Strategy& s) {
  const ModelShape& m = w.model;
  const int64_t tokens = sum.tokens(), split = sum.split_tokens(), e = sum.element();
  const int64_t query = m.query_width() / s.tp, value = m.value_width() / s.tp;
  sum.keep(2 * e * split * m.hidden);  // input of the norm, and its output
  int64_t moved = query + value;
  if (m.latent) {
    const LatentAttention& a = m.mla;
    if (a.query_rank > 0) {
      sum.product(tokens, a.query_rank, m.hidden);
      sum.product(tokens, query, a.query_rank);
      sum.keep(2 * e * tokens * a.query_rank);
    } else {
      sum.product(tokens, query, m.hidden);
    }
    const int64_t up = m.heads / s.tp * (a.nope_dim + a.value_dim);
    sum.product(tokens, a.kv_rank + a.rope_dim, m.hidden);
    sum.product(tokens, up, a.kv_rank);
    // Queries and keys with their positions; values are part of the product's output.
    sum.keep(e * tokens * (2 * a.kv_rank + a.rope_dim + 2 * query + up));
    moved += query + up;
  } else {
    const int64_t kv = sum.key_columns();
    sum.product(tokens, query + 2 * kv, m.hidden);
    sum.keep(e * tokens * (query + 2 * kv));
    moved += 2 * kv;
  }
  sum.attention();
  sum.keep(e * tokens * value);
  sum.product(tokens, m.hidden, value);
  sum.tensor_parallel_pair();
  sum.context_parallel();
  const auto bytes = static_cast<double>(e * tokens * moved);
  sum.moves(w.engine.attention_passes_forward * bytes, w.engine.attention_passes_backward * bytes);
}

void add_mlp(LayerSum& sum, const Workload& w, int64_t rows, int64_t width, int64_t batch) {
  const ModelShape& m = w.model;
  const int64_t up = m.gated_mlp ? 2 * width : width;
  const int64_t e = sum.element();
  sum.product(rows, up, m.hidden, batch);
  sum.product(rows, m.hidden, width, batch);
  sum.keep(e * rows * batch * (up + width));
  const double share = m.gated_mlp ? 1 : w.engine.plain_activation_share;
  const double all = share * static_cast<double>(e * rows * batch);
  sum.moves(all * static_cast<double>(up + width), all * static_cast<double>(2 * up + width));
}

void add_experts(LayerSum& sum, const Workload& w, const Strategy& s) {
  const ModelShape& m = w.model;
  const int64_t e = sum.element();
  const int64_t local = m.experts / s.ep;
  // Tokens are split over tp before they travel, whatever the rest of the layer does.
  const int64_t rows = ceil_div(sum.tokens() * m.experts_per_token, s.tp);
  // Routers are never in 8 bits.
  sum.product_of(MathType::kF16, ceil_div(sum.tokens(), s.tp), m.experts, m.hidden, 1);
  sum.expert_exchange(static_cast<double>(rows));
  const auto unit = static_cast<int64_t>(w.engine.expert_row_unit);
  const int64_t expert_rows = ceil_div(rows * s.expert_tp, local * unit) * unit;
  add_mlp(sum, w, expert_rows, m.moe_ffn / s.expert_tp, local);
  sum.keep(e * rows * s.expert_tp * m.hidden);
  const double dispatched = static_cast<double>(e * rows * m.hidden);
  const double passes =
      w.engine.expert_row_passes + w.engine.exchanged_passes * sum.exchanged_per_choice();
  sum.moves(passes * dispatched, passes * dispatched);
  sum.wait_for_counts();
  if (m.shared_ffn > 0) add_mlp(sum, w, sum.tokens(), m.shared_ffn / s.tp, 1);
  sum.cost().expert_parameters = local * m.mlp_parameters(m.moe_ffn) / s.expert_tp;
  sum.cost().dense_parameters += m.hidden * m.experts + m.mlp_parameters(m.shared_ffn) / s.tp;
  sum.cost().working_bytes =
      static_cast<int64_t>(w.engine.expert_units * static_cast<double>(e * rows * m.hidden));
}

// Tokens whose logits exist at one time.
int64_t loss_chunk(const Workload& w, int64_t tokens) {
  const bool cut = w.engine.loss_chunk_sum_passes > 0 && w.loss_chunk > 0;
  return cut ? std::min(w.loss_chunk, tokens) : tokens;
}

}  // namespace

double AxisCosts::total_s() const {
  double sum = 0;
  for (const double value : seconds) sum += value;
  return sum;
}

void AxisCosts::add(CommAxis axis, double more_seconds, double more_bytes) {
  seconds[static_cast<size_t>(axis)] += more_seconds;
  bytes[static_cast<size_t>(axis)] += more_bytes;
}

double LayerCost::forward_total_s() const {
  const double device_s = forward_s + forward_comm.total_s();
  const double both_s =
      waits_for_host ? device_s + host_forward_s : std::max(device_s, host_forward_s);
  return both_s + host_wait_s;
}

double LayerCost::backward_total_s() const {
  const double device_s = input_grad_s + weight_grad_s + backward_comm.total_s();
  return waits_for_host ? device_s + host_backward_s : std::max(device_s, host_backward_s);
}

double LayerCost::tensor_hidden_s(double most) const {
  return std::min(most * tensor_backward_s, weight_grad_s);
}

LayerCost layer_cost(const Workload& w, const Strategy& s, bool experts) {
  const ModelShape& m = w.model;
  LayerSum sum(w, s);
  const int64_t e = sum.element();
  const int64_t input = e * sum.split_tokens() * m.hidden;
  add_attention(sum, w, s);
  sum.keep(2 * input);  // of the second norm: input and output
  if (m.dropout) sum.keep(2 * sum.split_tokens() * m.hidden);
  const int64_t attention_split =
      m.latent ? 0 : m.attention_parameters();  // latent attention has parts that tp copies
  LayerCost& cost = sum.cost();
  cost.dense_parameters = attention_split / s.tp + m.small_parameters();
  if (m.latent) {
    const int64_t copied = m.hidden * (m.mla.query_rank + m.mla.kv_rank + m.mla.rope_dim);
    cost.dense_parameters += copied + (m.attention_parameters() - copied) / s.tp;
  }
  if (experts) {
    add_experts(sum, w, s);
  } else {
    add_mlp(sum, w, sum.tokens(), m.ffn / s.tp, 1);
    if (w.engine.skips_last_product != 0) sum.skip_last_product(m.ffn / s.tp);
    cost.dense_parameters += m.mlp_parameters(m.ffn) / s.tp;
    const int64_t up = (m.gated_mlp ? 2 : 1) * m.ffn / s.tp;
    cost.working_bytes = e * sum.tokens() * up +
                         static_cast<int64_t>(w.engine.backward_units *
                                              static_cast<double>(e * sum.tokens() * m.hidden));
  }
  experts ? sum.tensor_parallel_experts() : sum.tensor_parallel_pair();
  const double hidden_bytes = static_cast<double>(input);
  sum.moves(w.engine.hidden_passes_forward * hidden_bytes,
            w.engine.hidden_passes_backward * hidden_bytes);
  LayerCost result = sum.finish(input);
  result.buckets = buckets_of_layer(w, s, experts);
  if (w.overlap.tensor) {
    // A part of the communication runs inside the products next to it.
    for (AxisCosts* comm : {&result.forward_comm, &result.backward_comm, &result.once_comm}) {
      comm->seconds[static_cast<size_t>(CommAxis::kTensor)] *=
          1 - w.engine.overlap_window * w.engine.tensor_overlap_share;
    }
  }
  return result;
}

LayerCost embedding_cost(const Workload& w, const Strategy& s) {
  const ModelShape& m = w.model;
  LayerSum sum(w, s);
  const double bytes = static_cast<double>(sum.element() * sum.tokens() * m.hidden);
  sum.moves(w.engine.embedding_passes_forward * bytes, w.engine.embedding_passes_backward * bytes);
  sum.keep(8 * sum.tokens());  // the tokens themselves
  if (m.dropout) sum.keep(sum.split_tokens() * m.hidden);
  LayerCost cost = sum.finish(8 * sum.tokens());
  cost.host_forward_s = cost.host_backward_s = 0;
  cost.dense_parameters = m.table_parameters() / s.tp + m.learned_positions * m.hidden;
  cost.buckets = buckets_of_embedding(w);
  return cost;
}

LayerCost head_cost(const Workload& w, const Strategy& s) {
  const ModelShape& m = w.model;
  const DeviceSpec& device = w.cluster.device;
  LayerSum sum(w, s);
  const int64_t tokens = sum.tokens(), e = sum.element();
  const int64_t columns = ceil_div(m.vocab, s.tp);
  // The head is never in 8 bits.
  LayerCost& cost = sum.cost();
  const int64_t chunk = loss_chunk(w, tokens);
  const double chunks = to_double(ceil_div(tokens, chunk));
  cost.forward_s += chunks * product_s(device, w.engine, MathType::kF16, chunk, columns, m.hidden);
  cost.input_grad_s +=
      chunks * product_s(device, w.engine, MathType::kF16, chunk, m.hidden, columns);
  // Every chunk adds its part to the gradient.
  const double adding = w.engine.loss_chunk_sum_passes *
                        to_double(columns * m.hidden * w.precision.gradient_bytes) /
                        (device.memory_bandwidth.value * device.memory_efficiency.value);
  cost.weight_grad_s += chunks * std::max(adding, product_s(device, w.engine, MathType::kF16,
                                                            columns, m.hidden, chunk));
  sum.add_to_gradients(columns * m.hidden);
  cost.forward_flops = 2.0 * to_double(tokens) * to_double(columns) * to_double(m.hidden);
  const double logits = to_double(tokens) * to_double(columns);
  const double traffic =
      w.fused_loss ? w.engine.fused_logit_traffic_bytes : w.engine.logit_traffic_bytes;
  sum.moves(logits * traffic / 2, logits * traffic / 2);
  if (s.tp > 1) {
    const RankGroup group{s.tp, strides_of(s).tp};
    const double hidden = to_double(e * tokens * m.hidden);
    const double share = to_double(s.tp - 1) / to_double(s.tp);
    // Maximum, sum and the wanted logit of every token.
    const double three = 3 * all_reduce_s(w.cluster, group, 4.0 * to_double(tokens));
    const double around = s.sequence_parallel ? all_gather_s(w.cluster, group, hidden) : 0;
    const double back = s.sequence_parallel ? around : all_reduce_s(w.cluster, group, hidden);
    cost.forward_comm.add(CommAxis::kTensor, three + around,
                          share * (24.0 * to_double(tokens) + (around > 0 ? hidden : 0)));
    cost.backward_comm.add(CommAxis::kTensor, back, share * hidden * (s.sequence_parallel ? 1 : 2));
  }
  sum.keep(2 * e * sum.split_tokens() * m.hidden);  // final norm: input and output
  cost.dense_parameters = m.table_parameters() / s.tp + (m.layer_norm ? 2 : 1) * m.hidden;
  cost.largest_weights = columns * m.hidden;
  const auto logit_bytes =
      static_cast<int64_t>(w.fused_loss ? w.engine.fused_logit_bytes : w.engine.logit_bytes);
  const double unit = to_double(e * tokens * m.hidden);
  cost.working_bytes =
      logit_bytes * chunk * columns + static_cast<int64_t>(w.engine.turn_units * unit);
  LayerCost result = sum.finish(2 * e * sum.split_tokens() * m.hidden);
  result.host_forward_s = result.host_backward_s = 0;
  result.buckets = buckets_of_head(w);
  return result;
}

}  // namespace tessera
