#include "cost/step/rank_times.h"

#include <algorithm>

#include "cost/step/to_double.h"

namespace tessera {
namespace {

// Flash attention keeps nothing that its selective recomputation could give back.
Recompute effective_recompute(const RankLayout& l) {
  const bool idle =
      l.s.recompute == Recompute::kSelective && l.w.attention != AttentionKind::kUnfused;
  return idle ? Recompute::kNone : l.s.recompute;
}

// The first micro-batch has nothing to add to; from ZeRO-2 on a rank adds its shard alone, which
// takes next to no time.
double added_share(const RankLayout& l) {
  if (l.s.zero >= 2 && l.replicas > 1) return 0;
  return 1 - 1 / to_double(l.micro_batches);
}

double share_again(const RankLayers& layers) {
  return layers.again == 0 ? 0 : to_double(layers.again) / to_double(layers.total());
}

// `again` of a layer's forward is computed again, with its communication.
void add_layers(RankTime& time, const LayerCost& cost, const PassSeconds& pass, double count,
                double again) {
  time.seconds += count * (pass.forward + pass.backward);
  time.forward += count * pass.forward;
  time.backward += count * pass.backward;
  time.again += count * pass.again;
  time.weight += count * pass.weight;
  for (size_t i = 0; i < kNumCommAxes; ++i) {
    const auto axis = static_cast<CommAxis>(i);
    time.exposed[i] += count * sum_axis(cost, axis, again);
    time.bytes[i] += count * sum_axis_bytes(cost, axis, again);
  }
  time.exposed[static_cast<size_t>(CommAxis::kTensor)] += count * pass.tensor_waits;
}

}  // namespace

Overlapped overlap(const EngineNumbers& engine, const Overlap& both) {
  const double loss = engine.overlap_slowdown;
  const double most = both.comm_s - both.last_s;
  if (engine.sum_bucket_bytes == 0) {
    const double hidden = std::min(both.kernels_s, most);
    return {both.comm_s - hidden + loss * hidden, loss * hidden};
  }
  const double on_wire = both.comm_s > 0 ? std::min(1.0, both.wire_s / both.comm_s) : 0;
  const double lost = loss * on_wire * most;
  // Kernels beside communication all the time take so much longer, and no more.
  const double longest = loss < 1 ? both.kernels_s * loss / (1 - loss) : lost;
  return {std::max(both.comm_s - both.kernels_s, lost + both.last_s), std::min(lost, longest)};
}

double RankTime::exposed_total() const {
  double sum = 0;
  for (const double value : exposed) sum += value;
  return sum;
}

RankTimes::RankTimes(const RankLayout& layout)
    : l_(layout),
      dense_{l_.split.dense,
             pass_seconds(l_.split.dense, effective_recompute(l_), added_share(l_))},
      experts_{l_.split.experts,
               pass_seconds(l_.split.experts, effective_recompute(l_), added_share(l_))},
      head_{l_.split.head, pass_seconds(l_.split.head, Recompute::kNone, added_share(l_))},
      embedding_{l_.split.embedding, pass_seconds(l_.split.embedding, Recompute::kNone)},
      strides_(strides_of(l_.s)) {
  if (l_.s.pp > 1 && fills_with_weight_gradients(l_.s)) wait_for_tensor_parallel();
  prepare_hops();
  if (l_.sums_in_layers() && l_.replicas > 1) prepare_gathering();
}

void RankTimes::wait_for_tensor_parallel() {
  const EngineNumbers& engine = l_.w.engine;
  for (Unit* unit : {&dense_, &experts_}) {
    unit->pass.tensor_waits =
        std::max(0.0, unit->cost.tensor_hidden_s(engine.tensor_hidden_backward) -
                          unit->cost.tensor_hidden_s(engine.tensor_hidden_apart));
    unit->pass.backward += unit->pass.tensor_waits;
  }
}

void RankTimes::prepare_hops() {
  const Workload& w = l_.w;
  const Strategy& s = l_.s;
  const bool split = s.sequence_parallel || w.engine.splits_messages != 0;
  hop_bytes_ = to_double(w.precision.activation_bytes * w.model.hidden) *
               to_double(w.seq_len * s.micro_batch) / to_double(s.cp * (split ? s.tp : 1));
  if (s.pp == 1) return;
  const RankGroup pipeline{s.pp, strides_.pp};
  hop_s_ = mean_send_s(w.cluster, pipeline, hop_bytes_);
  if (w.engine.messages_in_order != 0) {
    slowest_hop_s_ = slowest_send_s(w.cluster, pipeline, hop_bytes_);
  } else if (w.overlap.pipeline) {
    hop_s_ *= 1 - w.engine.overlap_window;
  }
}

struct RankTimes::Gathering {
  GroupLinks links, expert_links, across_links;
  int64_t sharers = 0;
  double weight_bytes = 0, gradient_bytes = 0, all_bytes = 0;
  bool gathers = false, again = false, adds = false;
  RankGroup across;
  // Whether the axes of a layer's own communication use the links that it is gathered over.
  std::array<bool, kNumCommAxes> same_level = {};

  [[nodiscard]] double over_level_s(const AxisCosts& comm) const {
    const auto over = [&](CommAxis axis) {
      const auto i = static_cast<size_t>(axis);
      return comm.seconds[i] > 0 && same_level[i] ? comm.seconds[i] : 0;
    };
    return over(CommAxis::kTensor) + over(CommAxis::kContext) + over(CommAxis::kExpert);
  }
};

void RankTimes::prepare_gathering() {
  const Workload& w = l_.w;
  Gathering all;
  all.sharers = l_.expert_shard();
  all.links = links_of(w.cluster, {l_.shard, strides_.data});
  if (l_.has_experts()) all.expert_links = links_of(w.cluster, {all.sharers, l_.expert_stride});
  all.weight_bytes = to_double(w.precision.parameter_bytes);
  all.gradient_bytes = to_double(w.precision.gradient_bytes);
  all.gathers = l_.gathers_weights();
  all.again = all.gathers && l_.s.release_after_forward;
  all.all_bytes = (all.gathers ? all.weight_bytes * (all.again ? 2 : 1) : 0.0) + all.gradient_bytes;
  // Replicas of a shard group add their shards up; some engines do so in every micro-batch.
  all.across = {l_.replicas / l_.shard, strides_.data * l_.shard};
  all.adds = all.gathers && all.across.ranks > 1 && w.engine.adds_every_micro_batch != 0;
  if (all.adds) all.across_links = links_of(w.cluster, all.across);
  const auto compare = [&](CommAxis axis, const RankGroup& group) {
    all.same_level[static_cast<size_t>(axis)] = links_of(w.cluster, group).level == all.links.level;
  };
  compare(CommAxis::kTensor, {l_.s.tp, strides_.tp});
  compare(CommAxis::kContext, {l_.s.cp, strides_.data});
  compare(CommAxis::kExpert, {l_.s.ep, expert_strides_of(l_.s).ep});
  prepare_gathering(dense_, all);
  if (l_.has_experts()) prepare_gathering(experts_, all);
  if (w.engine.gathers_ends == 0) return;
  prepare_gathering(head_, all);
  prepare_gathering(embedding_, all);
}

void RankTimes::prepare_gathering(Unit& unit, const Gathering& all) const {
  const Cluster& cluster = l_.w.cluster;
  const auto dense = to_double(unit.cost.dense_parameters);
  const auto experts = to_double(unit.cost.expert_parameters);
  const SumBuckets& buckets = unit.cost.buckets;
  const auto gather_s = [&](double bytes) {
    const auto on = [&](const GroupLinks& group, int64_t ranks) {
      return [&cluster, &group, ranks](double part) {
        return all_gather_s(cluster, group, ranks, part);
      };
    };
    return in_buckets_s(buckets.dense, buckets.small, dense * bytes, on(all.links, l_.shard)) +
           in_buckets_s(buckets.experts, 0, experts * bytes, on(all.expert_links, all.sharers));
  };
  GatherCost& cost = unit.gather;
  cost.forward_s = all.gathers ? gather_s(all.weight_bytes) : 0;
  cost.sum_s = gather_s(all.gradient_bytes);
  if (all.adds) {
    const double bytes = (dense + experts) * all.gradient_bytes / to_double(l_.shard);
    cost.sum_s +=
        in_buckets_s(buckets.dense + buckets.experts, buckets.small, bytes, [&](double part) {
          return all_reduce_s(cluster, all.across_links, all.across.ranks, part);
        });
    cost.across_bytes = 2 * bytes;
    cost.across_wire_s = least_all_reduce_wire_s(all.across_links, all.across.ranks, bytes);
  }
  if (l_.experts_on_tp) {
    const RankGroup on_tp{l_.s.tp, strides_.tp};
    cost.sum_s += in_buckets_s(buckets.experts, 0, experts * all.gradient_bytes,
                               [&](double part) { return all_reduce_s(cluster, on_tp, part); });
  }
  cost.backward_s = cost.sum_s + (all.again ? cost.forward_s : 0);
  cost.bytes = (dense + experts) * all.all_bytes;
  cost.wire_s = all_gather_wire_s(all.links, l_.shard, dense * all.all_bytes);
  cost.expert_wire_s = all_gather_wire_s(all.expert_links, all.sharers, experts * all.all_bytes);
  cost.busy_forward_s = all.over_level_s(unit.cost.forward_comm);
  cost.busy_backward_s = all.over_level_s(unit.cost.backward_comm);
}

RankTimes::Counts RankTimes::counts_of(const RankLayers& layers, bool first, bool last) const {
  Counts counts{.dense = to_double(layers.dense), .experts = to_double(layers.experts)};
  counts.embeddings = first ? 1 : 0;
  if (!last) return counts;
  // Layers that predict later tokens have a head of their own.
  const double more = to_double(l_.w.model.mtp_layers);
  (l_.has_experts() ? counts.experts : counts.dense) += more;
  counts.heads = 1 + more;
  return counts;
}

void RankTimes::add_passes(RankTime& time, const Counts& counts, double again) const {
  const auto add_body = [&](const Unit& unit, double count) {
    if (count > 0) add_layers(time, unit.cost, with_again(unit.pass, again), count, again);
  };
  add_body(dense_, counts.dense);
  add_body(experts_, counts.experts);
  if (counts.embeddings > 0) add_layers(time, embedding_.cost, embedding_.pass, 1, 0);
  if (counts.heads > 0) add_layers(time, head_.cost, head_.pass, counts.heads, 0);
}

RankTimes::ExposedGathering RankTimes::exposed_gathering(const Unit& unit, double again) const {
  const GatherCost& gather = unit.gather;
  const PassSeconds pass = with_again(unit.pass, again);
  const double all = gather.forward_s + gather.backward_s;
  if (!l_.w.overlap.data || all == 0) return {gather.forward_s, gather.backward_s, 0};
  const EngineNumbers& engine = l_.w.engine;
  const double waited_s = engine.adds_every_micro_batch != 0 ? gather.sum_s : 0;
  const double beside_s = gather.backward_s - waited_s;
  if (engine.sum_bucket_bytes == 0) {
    const auto exposed = [&](double comm_s, double kernels_s) {
      const double hidden = std::min(comm_s, kernels_s);
      return comm_s - hidden + engine.overlap_slowdown * hidden;
    };
    return {exposed(gather.forward_s, pass.forward), exposed(beside_s, pass.backward), waited_s};
  }
  const double wire = (gather.wire_s + gather.expert_wire_s) / all;
  const auto exposed = [&](double comm_s, double kernels_s) {
    return overlap(engine, {comm_s, wire * comm_s, kernels_s, 0}).exposed_s;
  };
  return {exposed(gather.forward_s, pass.forward - gather.busy_forward_s),
          exposed(beside_s, pass.backward - gather.busy_backward_s - again * gather.busy_forward_s),
          waited_s};
}

template <typename Gather>
void RankTimes::for_gathered(const RankLayers& layers, const Counts& ends, double again,
                             const Gather& gather) const {
  if (!l_.sums_in_layers() || l_.replicas == 1) return;
  const auto meet = [&](const Unit& unit, double count, double share) {
    if (count != 0) gather(unit, count, share);
  };
  meet(dense_, to_double(layers.dense), again);
  meet(experts_, to_double(layers.experts), again);
  if (l_.w.engine.gathers_ends == 0) return;
  meet(embedding_, ends.embeddings, 0);
  meet(head_, ends.heads, 0);
}

void RankTimes::add_gathering(RankTime& time, const RankLayers& layers, const Counts& ends,
                              double again) const {
  for_gathered(layers, ends, again, [&](const Unit& unit, double count, double share) {
    const auto axis = static_cast<size_t>(CommAxis::kData);
    const double exposed = exposed_gathering(unit, share).total_s();
    time.exposed[axis] += count * exposed;
    time.seconds += count * exposed;
    if (l_.w.engine.adds_every_micro_batch != 0) time.summing += count * unit.gather.sum_s;
    time.bytes[axis] += count * (unit.gather.bytes + unit.gather.across_bytes);
    time.across_wire += count * unit.gather.across_wire_s;
    time.gather_wire += count * unit.gather.wire_s;
    time.expert_gather_wire += count * unit.gather.expert_wire_s;
  });
}

RankTime RankTimes::rank_time(int64_t rank, const RankLayers& layers) const {
  RankTime time;
  const double again = share_again(layers);
  const Counts counts = counts_of(layers, l_.has_embedding(rank), l_.has_head(rank));
  add_passes(time, counts, again);
  add_gathering(time, layers, counts, again);
  if (l_.s.pp > 1) {
    const auto i = static_cast<size_t>(CommAxis::kPipeline);
    const double messages = messages_of(rank);
    time.exposed[i] += messages * hop_s_;
    time.seconds += messages * hop_s_;
    time.bytes[i] += messages * hop_bytes_;
  }
  return time;
}

// In the order of rank_time, so that both are equal to the last bit.
double RankTimes::rank_seconds(int64_t rank, const RankLayers& layers) const {
  double sum = 0;
  const double again = share_again(layers);
  const Counts counts = counts_of(layers, l_.has_embedding(rank), l_.has_head(rank));
  const auto add = [&](const PassSeconds& pass, double count) {
    if (count > 0) sum += count * (pass.forward + pass.backward);
  };
  add(with_again(dense_.pass, again), counts.dense);
  add(with_again(experts_.pass, again), counts.experts);
  add(embedding_.pass, counts.embeddings);
  add(head_.pass, counts.heads);
  for_gathered(layers, counts, again, [&](const Unit& unit, double count, double share) {
    sum += count * exposed_gathering(unit, share).total_s();
  });
  return l_.s.pp > 1 ? sum + messages_of(rank) * hop_s_ : sum;
}

PassTimes RankTimes::stage_time(int64_t stage) const {
  const RankLayers layers = l_.layers.of_stage(stage);
  const bool last = stage == l_.s.pp * l_.s.virtual_stages - 1;
  // A strategy that says it by rank means the same share of each of its stages.
  const double again = share_again(
      l_.s.stage_recompute.empty() ? l_.layers.of_rank(rank_of_stage(l_.s, stage)) : layers);
  const Counts counts = counts_of(layers, stage == 0, last);
  RankTime time;
  add_passes(time, counts, again);
  const double elementwise_s = elementwise_again_s() * (counts.dense + counts.experts);
  time.seconds += elementwise_s;
  time.backward += elementwise_s;
  const double before = time.seconds;
  add_gathering(time, layers, counts, again);
  // What gathering exposes waits in forward and in backward as their own lengths are; sums wait for
  // weight gradients.
  const double stretch = before > 0 ? (time.seconds - time.summing) / before : 1;
  if (last && l_.w.engine.loss_chunk_sum_passes > 0) {
    // Chunks of the loss are differentiated right after their forward, in the forward part.
    const double backward = counts.heads * head_.pass.backward;
    time.forward += backward;
    time.backward -= backward;
    time.weight -= counts.heads * head_.pass.weight;
  }
  PassTimes pass{time.forward * stretch, time.backward * stretch + time.summing,
                 time.weight + time.summing};
  if (l_.gathers_weights() && l_.w.engine.messages_in_order != 0) {
    // The first unit alone: the others come behind kernels.
    const ExposedGathering first = exposed_gathering(counts.experts > 0 ? experts_ : dense_, again);
    if (stage > 0) pass.early_forward_s = std::min(first.forward_s, pass.forward_s);
    pass.early_backward_s = std::min(first.backward_s, pass.backward_s - pass.weight_grad_s);
  }
  pass.after_gradient_s = pass.backward_s * share_after_gradient(counts, again);
  return pass;
}

// The gradient that a stage is given goes into the MLP of its last layer and past it; attention and
// the layers before have others.
double RankTimes::share_after_gradient(const Counts& counts, double again) const {
  const double layers = counts.dense + counts.experts;
  if (layers == 0) return 0;
  const ModelShape& m = l_.w.model;
  const double attention = to_double(m.attention_parameters());
  const double mlp = counts.experts > 0
                         ? to_double(m.experts_per_token * m.mlp_parameters(m.moe_ffn) +
                                     m.mlp_parameters(m.shared_ffn))
                         : to_double(m.mlp_parameters(m.ffn));
  // What is computed again of a layer comes before all of it.
  const double last = attention / (attention + mlp) * 2 / (2 + again);
  return (layers - 1 + last) / layers;
}

double RankTimes::forward_comm_s(int64_t rank, const RankLayers& layers) const {
  const Counts counts = counts_of(layers, l_.has_embedding(rank), l_.has_head(rank));
  double sum = counts.dense * dense_.cost.forward_comm.total_s() +
               counts.experts * experts_.cost.forward_comm.total_s();
  if (counts.embeddings > 0) sum += embedding_.cost.forward_comm.total_s();
  if (counts.heads > 0) sum += counts.heads * head_.cost.forward_comm.total_s();
  return sum;
}

// Two norms read and write the residual; an activation reads one or two inputs and writes one.
double RankTimes::elementwise_again_s() const {
  const Strategy& s = l_.s;
  if (s.elementwise_again == ElementwiseAgain::kNone || s.recompute == Recompute::kFull) return 0;
  const ModelShape& m = l_.w.model;
  const double tokens = to_double(s.micro_batch) * to_double(l_.w.seq_len) / to_double(s.cp);
  const double norms =
      4 * tokens * to_double(m.hidden) / (s.sequence_parallel ? to_double(s.tp) : 1.0);
  const double width = m.experts > 0 ? to_double(m.moe_ffn * m.experts_per_token)
                                     : to_double(m.ffn) / to_double(s.tp);
  const bool both = s.elementwise_again == ElementwiseAgain::kNormsAndActivations;
  const double activations = both ? (m.gated_mlp ? 3 : 2) * tokens * width : 0.0;
  const DeviceSpec& device = l_.w.cluster.device;
  return (norms + activations) * to_double(l_.w.precision.activation_bytes) /
             (device.memory_bandwidth.value * device.memory_efficiency.value) +
         3 * device.launch_s.value;
}

// Messages that a rank waits for in one micro-batch. An end of the pipeline has one neighbour: what
// it sends leaves while the next one arrives.
double RankTimes::messages_of(int64_t rank) const {
  return 2 * to_double(l_.s.virtual_stages) - (l_.is_end(rank) ? 1 : 0);
}

double RankTimes::slow_messages_s() const {
  return 2 * to_double(l_.s.virtual_stages) * std::max(0.0, slowest_hop_s_ - hop_s_);
}

double RankTimes::mean_rank_s() const {
  const ModelShape& m = l_.w.model;
  const auto dense = to_double(m.layers - m.moe_layers() + (m.experts > 0 ? 0 : m.mtp_layers));
  const auto experts = to_double(m.moe_layers() + (m.experts > 0 ? m.mtp_layers : 0));
  // Sharded gradients are added elsewhere, and this is for any sharding.
  const auto both = [](const Unit& unit) {
    return unit.pass.forward + unit.pass.backward - unit.pass.adding;
  };
  const double sum = dense * both(dense_) + experts * both(experts_) + both(embedding_) +
                     to_double(1 + m.mtp_layers) * both(head_);
  return sum / to_double(l_.s.pp);
}

double RankTimes::mean_messages_s() const {
  const double ends = l_.head_rank == 0 ? 1 : 2;
  const Strategy& s = l_.s;
  return s.pp == 1 ? 0 : (2 * to_double(s.virtual_stages) - ends / to_double(s.pp)) * hop_s_;
}

double RankTimes::mean_gathering_s() const {
  if (!l_.sums_in_layers() || l_.replicas == 1) return 0;
  // Layers that are computed again hide the most.
  const auto least = [&](const Unit& unit, int64_t layers) {
    return layers == 0 ? 0.0 : to_double(layers) * exposed_gathering(unit, 1).total_s();
  };
  const ModelShape& m = l_.w.model;
  return (least(dense_, m.layers - m.moe_layers()) + least(experts_, m.moe_layers())) /
         to_double(l_.s.pp);
}

double RankTimes::largest_weight_share() const {
  double share = 0;
  for (const Unit* unit : {&dense_, &experts_, &embedding_, &head_}) {
    const double all = unit->pass.forward + unit->pass.backward;
    if (all > 0) share = std::max(share, unit->pass.weight / all);
  }
  return share;
}

}  // namespace tessera
