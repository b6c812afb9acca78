// The price of one strategy from the costs of its layers: stages, exposed communication, bubble,
// optimizer; memory is in rank_memory.h. What is remembered between strategies comes in from
// cost_model.cc.
#pragma once

#include <algorithm>

#include "compile/pipeline/schedule/named_schedule.h"
#include "cost/step/collective_time.h"
#include "cost/step/cost_model.h"
#include "cost/step/layer_cost.h"
#include "cost/step/link_load.h"
#include "cost/step/pass_seconds.h"
#include "cost/step/rank_memory.h"
#include "cost/step/stages.h"
#include "cost/step/to_double.h"

namespace tessera {

// Everything that is known of a strategy's step; no heap.
struct Breakdown {
  StepTime time;
  std::array<AxisTraffic, kNumCommAxes> traffic = {};
};

// Prices one strategy; lives on the stack of one call.
class Pricing : public RankMemory {
 public:
  Pricing(const Workload& workload, const Strategy& strategy, const SplitCost& split,
          int64_t micro_batches)
      : RankMemory(workload, strategy, split, micro_batches),
        dense_(pass_seconds(split.dense, effective_recompute(), added_share())),
        experts_(pass_seconds(split.experts, effective_recompute(), added_share())),
        head_(pass_seconds(split.head, Recompute::kNone, added_share())),
        embedding_(pass_seconds(split.embedding, Recompute::kNone)),
        strides_(strides_of(strategy)) {
    prepare_hops();
  }

  Breakdown step() {
    Breakdown result;
    find_stages();
    const double m = to_double(micro_batches_);
    const double steady = m * busiest_.seconds;
    result.time.compute_s = m * (busiest_.seconds - busiest_.exposed_total());
    result.time.recompute_s = m * busiest_.again;
    for (size_t i = 0; i < kNumCommAxes; ++i) {
      result.time.exposed_s[i] = m * busiest_.exposed[i];
      result.traffic[i].bytes = m * busiest_.bytes[i];
      result.traffic[i].busy_s = m * busiest_.exposed[i];
    }
    result.time.bubble_s = bubble();
    const double slow_s = m * slow_messages_s();
    result.time.exposed_s[static_cast<size_t>(CommAxis::kPipeline)] += slow_s;
    add_data_parallel(result);
    result.time.optimizer_s = optimizer();
    result.time.step_s =
        steady + slow_s + result.time.bubble_s + data_exposed_s_ + result.time.optimizer_s;
    if (computes_elementwise_again()) add_elementwise_again(result.time);
    set_levels(result);
    keep_above_links(result);
    return result;
  }

  // After step(): of the kernels of the busiest rank, those of forward.
  [[nodiscard]] double forward_kernels_s() const {
    const RankLayers layers = layers_of_rank(w_.model, s_, busiest_rank_);
    const double more = busiest_rank_ == head_rank_ ? to_double(w_.model.mtp_layers) : 0;
    const bool moe = w_.model.experts > 0;
    double comm_s = (to_double(layers.dense) + (moe ? 0 : more)) * forward_comm_s(split_.dense) +
                    (to_double(layers.experts) + (moe ? more : 0)) * forward_comm_s(split_.experts);
    if (busiest_rank_ == 0) comm_s += forward_comm_s(split_.embedding);
    if (busiest_rank_ == head_rank_) comm_s += (1 + more) * forward_comm_s(split_.head);
    return to_double(micro_batches_) * (busiest_.forward - comm_s);
  }

  // What one micro-batch costs stage by stage, and what is left for once per step.
  PipelineSeconds pipeline() {
    PipelineSeconds price;
    find_stages();
    const int64_t stages = s_.pp * s_.virtual_stages;
    for (int64_t stage = 0; stage < stages; ++stage) price.stages.push_back(stage_time(stage));
    for (int64_t stage = 0; stage + 1 < stages; ++stage) {
      const int64_t from = rank_of_stage(s_, stage), to = rank_of_stage(s_, stage + 1);
      const SendTime sent = send_time(w_.cluster, from * strides_.pp, to * strides_.pp, hop_bytes_);
      price.messages.push_back({sent.latency_s, sent.wire_s});
    }
    Breakdown once;
    add_data_parallel(once);
    for (size_t i = 0; i < kNumCommAxes; ++i) {
      price.exposed_s[i] = to_double(micro_batches_) * busiest_.exposed[i] + once.time.exposed_s[i];
    }
    price.exposed_s[static_cast<size_t>(CommAxis::kPipeline)] = 0;
    price.once_s = data_exposed_s_ + optimizer();
    return price;
  }

  // Work of all ranks for one micro-batch: whatever the stages are, the busiest has the mean.
  [[nodiscard]] double mean_rank_s() const {
    const ModelShape& m = w_.model;
    const auto dense = to_double(m.layers - m.moe_layers() + (m.experts > 0 ? 0 : m.mtp_layers));
    const auto experts = to_double(m.moe_layers() + (m.experts > 0 ? m.mtp_layers : 0));
    // Sharded gradients are added elsewhere, and this is for any sharding.
    const auto both = [](const PassSeconds& pass) {
      return pass.forward + pass.backward - pass.adding;
    };
    const double sum = dense * both(dense_) + experts * both(experts_) + both(embedding_) +
                       to_double(1 + m.mtp_layers) * both(head_);
    return sum / to_double(s_.pp);
  }

  // At most the closed-form step of every choice of stages and of layers to compute again whose
  // busiest rank takes `busiest_s` or more: all ranks together have all of the work.
  [[nodiscard]] double stages_bound_s(double busiest_s) const {
    const double mean = mean_rank_s() + messages_s() + least_gathering_s();
    double weight = 0;
    for (const PassSeconds* pass : {&dense_, &experts_, &embedding_, &head_}) {
      const double all = pass->forward + pass->backward;
      if (all > 0) weight = std::max(weight, pass->weight / all);
    }
    const double bubbles = s_.pp > 1 ? bubble_share(weight) : 0;
    return (to_double(micro_batches_) - bubbles) * std::max(mean, busiest_s) +
           bubbles * to_double(s_.pp) * mean;
  }

  [[nodiscard]] bool is_end(int64_t rank) const { return rank == 0 || rank == head_rank_; }

  // Of a rank with these layers, for one micro-batch.
  [[nodiscard]] double rank_seconds(int64_t rank, const RankLayers& layers) const {
    return rank_time(rank, layers).seconds;
  }

 private:
  // One micro-batch through a pipeline rank.
  struct RankTime {
    double seconds = 0;
    double again = 0;
    double weight = 0;
    std::array<double, kNumCommAxes> exposed = {};
    std::array<double, kNumCommAxes> bytes = {};
    double forward = 0, backward = 0;
    double gather_wire = 0, expert_gather_wire = 0;  // ZeRO-3: bytes over bandwidth
    [[nodiscard]] double exposed_total() const {
      double sum = 0;
      for (const double value : exposed) sum += value;
      return sum;
    }
  };

  // Flash attention keeps nothing that its selective recomputation could give back.
  [[nodiscard]] Recompute effective_recompute() const {
    const bool idle =
        s_.recompute == Recompute::kSelective && w_.attention != AttentionKind::kUnfused;
    return idle ? Recompute::kNone : s_.recompute;
  }

  [[nodiscard]] bool computes_elementwise_again() const {
    return s_.elementwise_again != ElementwiseAgain::kNone && s_.recompute != Recompute::kFull;
  }

  // Two norms read and write the residual; an activation reads one or two inputs and writes one.
  [[nodiscard]] double elementwise_layer_s() const {
    const ModelShape& m = w_.model;
    const double tokens = to_double(s_.micro_batch) * to_double(w_.seq_len) / to_double(s_.cp);
    const double norms =
        4 * tokens * to_double(m.hidden) / (s_.sequence_parallel ? to_double(s_.tp) : 1.0);
    const double width = m.experts > 0 ? to_double(m.moe_ffn * m.experts_per_token)
                                       : to_double(m.ffn) / to_double(s_.tp);
    const bool both = s_.elementwise_again == ElementwiseAgain::kNormsAndActivations;
    const double activations = both ? (m.gated_mlp ? 3 : 2) * tokens * width : 0.0;
    const DeviceSpec& device = w_.cluster.device;
    return (norms + activations) * to_double(w_.precision.activation_bytes) /
               (device.memory_bandwidth.value * device.memory_efficiency.value) +
           3 * device.launch_s.value;
  }

  // Every stage takes longer by the same, so the bubble does as the kernels do.
  void add_elementwise_again(StepTime& time) const {
    const double layers = to_double((w_.model.layers + s_.pp - 1) / s_.pp);
    const double extra = elementwise_layer_s() * layers * to_double(micro_batches_);
    const double bubble = time.compute_s > 0 ? extra * time.bubble_s / time.compute_s : 0;
    time.compute_s += extra;
    time.recompute_s += extra;
    time.bubble_s += bubble;
    time.step_s += extra + bubble;
  }

  void add_elementwise_again(RankTime& time, double layers) const {
    const double extra = elementwise_layer_s() * layers;
    time.seconds += extra;
    time.backward += extra;
    time.again += extra;
  }

  static double forward_comm_s(const LayerCost& cost) { return cost.forward_comm.total_s(); }

  // The first micro-batch has nothing to add to; from ZeRO-2 on a rank adds its shard alone, which
  // is as good as nothing.
  [[nodiscard]] double added_share() const {
    if (s_.zero >= 2 && s_.dp * s_.cp > 1) return 0;
    return 1 - 1 / to_double(micro_batches_);
  }

  // `again` of a layer's forward is computed again, with its communication.
  static void add_layers(RankTime& time, const LayerCost& cost, const PassSeconds& pass,
                         double count, double again) {
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
  }

  RankTime rank_time(int64_t rank) const {
    return rank_time(rank, layers_of_rank(w_.model, s_, rank));
  }

  static double share_again(const RankLayers& layers) {
    return layers.again == 0 ? 0 : to_double(layers.again) / to_double(layers.total());
  }

  RankTime rank_time(int64_t rank, const RankLayers& layers) const {
    RankTime time;
    const double share = share_again(layers);
    const bool last = rank == head_rank_;
    double dense = to_double(layers.dense), experts = to_double(layers.experts);
    double heads = last ? 1 : 0;
    if (last) {
      // Layers that predict later tokens have a head of their own.
      (w_.model.experts > 0 ? experts : dense) += to_double(w_.model.mtp_layers);
      heads += to_double(w_.model.mtp_layers);
    }
    add_body(time, dense, experts, share);
    if (rank == 0) add_layers(time, split_.embedding, embedding_, 1, 0);
    if (heads > 0) add_layers(time, split_.head, head_, heads, 0);
    add_gathering(time, layers, share);
    if (rank == 0) gather_end(time, split_.embedding, embedding_, 1);
    if (heads > 0) gather_end(time, split_.head, head_, heads);
    if (s_.pp > 1) {
      const auto i = static_cast<size_t>(CommAxis::kPipeline);
      const double messages = messages_of(rank);
      time.exposed[i] += messages * hop_s_;
      time.seconds += messages * hop_s_;
      time.bytes[i] += messages * hop_bytes_;
    }
    return time;
  }

  // That a rank waits for in one micro-batch. An end of the pipeline has one neighbour: what it
  // sends leaves while the next one arrives.
  [[nodiscard]] double messages_of(int64_t rank) const {
    return 2 * to_double(s_.virtual_stages) - (is_end(rank) ? 1 : 0);
  }
  // In the mean over the ranks.
  [[nodiscard]] double messages_s() const {
    const double ends = head_rank_ == 0 ? 1 : 2;
    return s_.pp == 1 ? 0 : (2 * to_double(s_.virtual_stages) - ends / to_double(s_.pp)) * hop_s_;
  }

  // One message at a time, in order: ranks on both sides of the slowest boundary wait for each of
  // its messages, beyond what the mean charges them, and all others for them.
  [[nodiscard]] double slow_messages_s() const {
    return 2 * to_double(s_.virtual_stages) * std::max(0.0, slowest_hop_s_ - hop_s_);
  }

  void add_body(RankTime& time, double dense, double experts, double share) const {
    if (dense > 0) add_layers(time, split_.dense, with_again(dense_, share), dense, share);
    if (experts > 0) add_layers(time, split_.experts, with_again(experts_, share), experts, share);
  }

  PassTimes stage_time(int64_t stage) const {
    const RankLayers layers = layers_of_stage(w_.model, s_, stage);
    const bool last = stage == s_.pp * s_.virtual_stages - 1;
    RankTime time;
    const auto more = to_double(last ? w_.model.mtp_layers : 0);
    const bool moe = w_.model.experts > 0;
    const double dense = to_double(layers.dense) + (moe ? 0 : more);
    const double experts = to_double(layers.experts) + (moe ? more : 0);
    // A strategy that says it by rank means the same share of each of its stages.
    const double share = s_.stage_recompute.empty()
                             ? share_again(layers_of_rank(w_.model, s_, rank_of_stage(s_, stage)))
                             : share_again(layers);
    add_body(time, dense, experts, share);
    if (stage == 0) add_layers(time, split_.embedding, embedding_, 1, 0);
    if (last) add_layers(time, split_.head, head_, 1 + more, 0);
    const auto again = to_double(layers.total()) + more;
    if (computes_elementwise_again()) add_elementwise_again(time, again);
    const double before = time.seconds;
    add_gathering(time, layers, share);
    if (stage == 0) gather_end(time, split_.embedding, embedding_, 1);
    if (last) gather_end(time, split_.head, head_, 1 + more);
    // What gathering exposes waits in forward and in backward as their own lengths are.
    const double stretch = before > 0 ? time.seconds / before : 1;
    if (last && w_.engine.loss_chunk_sum_passes > 0) differentiate_loss_at_once(time, 1 + more);
    return {time.forward * stretch, time.backward * stretch, time.weight};
  }

  // Chunks of the loss are differentiated right after their forward, in the forward part.
  void differentiate_loss_at_once(RankTime& time, double heads) const {
    RankTime head;
    add_layers(head, split_.head, head_, heads, 0);
    time.forward += head.backward;
    time.backward -= head.backward;
    time.weight -= head.weight;
  }

  void prepare_hops() {
    const bool split = s_.sequence_parallel || w_.engine.splits_messages != 0;
    hop_bytes_ = to_double(w_.precision.activation_bytes * w_.model.hidden) *
                 to_double(w_.seq_len * s_.micro_batch) / to_double(s_.cp * (split ? s_.tp : 1));
    hop_s_ = s_.pp > 1 ? mean_send_s(w_.cluster, {s_.pp, strides_.pp}, hop_bytes_) : 0;
    if (w_.engine.messages_in_order != 0) {
      slowest_hop_s_ = s_.pp > 1 ? slowest_send_s(w_.cluster, {s_.pp, strides_.pp}, hop_bytes_) : 0;
    } else if (w_.overlap.pipeline) {
      hop_s_ *= 1 - w_.engine.overlap_window;
    }
  }

  // ZeRO-3: weights are gathered for forward and again for backward, gradients scattered, in every
  // micro-batch, beside the kernels of the layers before.
  struct GatherCost {
    double forward_s = 0, backward_s = 0, bytes = 0;
    double sum_s = 0;                      // part of backward_s: of gradients
    double wire_s = 0, expert_wire_s = 0;  // of all of it, bytes over bandwidth
  };
  GatherCost gather_cost(int64_t dense, int64_t experts) const {
    const PrecisionChoice& p = w_.precision;
    const int64_t sharers = std::min(expert_replicas_, shard_);
    const GroupLinks links = links_of(w_.cluster, {shard_, strides_.data});
    const GroupLinks expert_links =
        experts > 0 ? links_of(w_.cluster, {sharers, expert_strides_of(s_).replicas})
                    : GroupLinks{};
    const auto both = [&](double bytes) {
      return all_gather_s(w_.cluster, links, shard_, to_double(dense) * bytes) +
             all_gather_s(w_.cluster, expert_links, sharers, to_double(experts) * bytes);
    };
    const auto weights = to_double(p.parameter_bytes), gradients = to_double(p.gradient_bytes);
    const double bytes = weights * (s_.release_after_forward ? 2 : 1) + gradients;
    GatherCost cost;
    cost.forward_s = both(weights);
    cost.sum_s = both(gradients);
    cost.backward_s = cost.sum_s + (s_.release_after_forward ? cost.forward_s : 0);
    cost.bytes = to_double(dense + experts) * bytes;
    cost.wire_s = all_gather_wire_s(links, shard_, to_double(dense) * bytes);
    cost.expert_wire_s = all_gather_wire_s(expert_links, sharers, to_double(experts) * bytes);
    return cost;
  }

  // What of a layer's gathering its kernels do not hide.
  double exposed_gathering_s(const GatherCost& gather, const PassSeconds& pass) const {
    const double all = gather.forward_s + gather.backward_s;
    if (!w_.overlap.data) return all;
    const double beside_s =
        gather.backward_s - (w_.engine.adds_every_micro_batch != 0 ? gather.sum_s : 0);
    const double hidden =
        std::min(gather.forward_s, pass.forward) + std::min(beside_s, pass.backward);
    return all - hidden + w_.engine.overlap_slowdown * hidden;
  }

  // Of the ranks in the mean, where all layers are computed again and hide the most.
  double least_gathering_s() const {
    if (s_.zero != 3 || replicas_ == 1) return 0;
    const auto of = [&](const LayerCost& cost, const PassSeconds& pass, int64_t layers) {
      if (layers == 0) return 0.0;
      const GatherCost gather = gather_cost(cost.dense_parameters, cost.expert_parameters);
      return to_double(layers) * exposed_gathering_s(gather, with_again(pass, 1));
    };
    const ModelShape& m = w_.model;
    return (of(split_.dense, dense_, m.layers - m.moe_layers()) +
            of(split_.experts, experts_, m.moe_layers())) /
           to_double(s_.pp);
  }

  void add_gathering(RankTime& time, const RankLayers& layers, double share) const {
    gather_unit(time, split_.dense, with_again(dense_, share), to_double(layers.dense));
    gather_unit(time, split_.experts, with_again(experts_, share), to_double(layers.experts));
  }

  // Embedding or head, where the engine gathers it apart from the layers.
  void gather_end(RankTime& time, const LayerCost& cost, const PassSeconds& pass,
                  double count) const {
    if (w_.engine.gathers_ends != 0) gather_unit(time, cost, pass, count);
  }

  // `count` units of weights that are gathered together, each for these kernels.
  void gather_unit(RankTime& time, const LayerCost& cost, const PassSeconds& pass,
                   double count) const {
    if (s_.zero != 3 || replicas_ == 1 || count == 0) return;
    const auto axis = static_cast<size_t>(CommAxis::kData);
    const GatherCost gather = gather_cost(cost.dense_parameters, cost.expert_parameters);
    const double exposed = exposed_gathering_s(gather, pass);
    time.exposed[axis] += count * exposed;
    time.seconds += count * exposed;
    time.bytes[axis] += count * gather.bytes;
    time.gather_wire += count * gather.wire_s;
    time.expert_gather_wire += count * gather.expert_wire_s;
  }

  // The busiest rank, and the time of one micro-batch through all.
  void find_stages() {
    const int64_t last = s_.pp - 1;
    const auto meet = [&](int64_t rank, double times) {
      const RankTime time = rank_time(rank);
      through_s_ += times * time.seconds;
      if (time.seconds > busiest_.seconds) {
        busiest_ = time;
        busiest_rank_ = rank;
      }
    };
    meet(0, 1);
    if (middle_is_uniform()) {
      if (last > 1) meet(1, to_double(last - 1));
    } else {
      for (int64_t rank = 1; rank < last; ++rank) meet(rank, 1);
    }
    if (last > 0) meet(last, 1);
  }

  [[nodiscard]] double bubble() const {
    if (s_.pp == 1) return 0;
    const double once =
        (through_s_ - busiest_.seconds) * bubble_share(busiest_.weight / busiest_.seconds);
    return s_.one_micro_batch_at_a_time ? once * to_double(micro_batches_) : once;
  }

  // The part of the other ranks' time that the busiest one waits. `weight`: of its time for a
  // micro-batch, what weight gradients are.
  [[nodiscard]] double bubble_share(double weight) const {
    return idle_share(s_.schedule, s_.virtual_stages, weight);
  }

  void add_data_parallel(Breakdown& result) {
    const RankLayers layers = layers_of_rank(w_.model, s_, busiest_rank_);
    const Parameters held = parameters(layers, busiest_rank_);
    const auto axis = static_cast<size_t>(CommAxis::kData);
    const PrecisionChoice& p = w_.precision;
    double once_s = 0;    // after the last backward, or beside it
    double gather_s = 0;  // part of it: of new weights
    const bool often = w_.engine.adds_every_micro_batch != 0 && s_.zero >= 2;
    const double times = often ? to_double(micro_batches_) : 1;  // that gradients are added up
    if (s_.zero == 3) {
      // Gathering is in every micro-batch; replicas of a shard group still add their gradients up.
      if (shard_ < replicas_) {
        const RankGroup across{replicas_ / shard_, strides_.data * shard_};
        const double bytes =
            to_double((held.dense + held.experts) * p.gradient_bytes) / to_double(shard_);
        const GroupLinks links = links_of(w_.cluster, across);
        once_s = times * all_reduce_s(w_.cluster, links, across.ranks, bytes);
        load_.add(links.level, CommAxis::kData,
                  times * least_all_reduce_wire_s(links, across.ranks, bytes));
        result.traffic[axis].bytes += 2 * times * bytes;
      }
    } else {
      const RankGroup group{replicas_, strides_.data};
      const RankGroup expert_group{expert_replicas_, expert_strides_of(s_).replicas};
      const auto add = [&](const RankGroup& ranks, int64_t count) {
        if (ranks.ranks <= 1 || count == 0) return;
        const double gradients = to_double(count * p.gradient_bytes);
        const double weights = to_double(count * p.parameter_bytes);
        const double share = to_double(ranks.ranks - 1) / to_double(ranks.ranks);
        const GroupLinks links = links_of(w_.cluster, ranks);
        if (s_.zero == 0) {
          once_s += all_reduce_s(w_.cluster, links, ranks.ranks, gradients);
          load_.add(links.level, CommAxis::kData,
                    least_all_reduce_wire_s(links, ranks.ranks, gradients));
          result.traffic[axis].bytes += 2 * share * gradients;
          return;
        }
        const double rounds = s_.zero == 2 ? to_double(micro_batches_) : 1;
        const double new_weights_s = all_gather_s(w_.cluster, links, ranks.ranks, weights);
        once_s += rounds * all_gather_s(w_.cluster, links, ranks.ranks, gradients) + new_weights_s;
        gather_s += new_weights_s;
        result.traffic[axis].bytes += share * (rounds * gradients + weights);
        load_.add(links.level, CommAxis::kData,
                  all_gather_wire_s(links, ranks.ranks, rounds * gradients + weights));
      };
      add(group, held.dense);
      add(expert_group, held.experts);
    }
    if (w_.model.tied && head_rank_ > 0) {
      const RankGroup ends{2, strides_.pp * (s_.pp - 1)};
      const double bytes = to_double(w_.model.table_parameters() / s_.tp * p.gradient_bytes);
      tie_s_ = all_reduce_s(w_.cluster, ends, bytes);
    }
    result.traffic[axis].busy_s += once_s;
    data_exposed_s_ = once_s;
    if (w_.overlap.data) {
      // Gradients leave while the last backward runs; gathered weights arrive during the first
      // forward, or at once.
      const bool at_once = w_.engine.gathers_after_update != 0;
      if (!at_once) gather_s = 0;
      const bool in_forward = s_.zero > 0 && !at_once;
      const double window = often ? 0
                                  : w_.engine.overlap_window *
                                        (busiest_.backward + (in_forward ? busiest_.forward : 0));
      const double beside_s = once_s - gather_s;
      const double hidden = std::min(window, beside_s * (1 - w_.engine.last_bucket));
      data_exposed_s_ = once_s - hidden + w_.engine.overlap_slowdown * hidden;
    }
    data_exposed_s_ += tie_s_;
    result.time.exposed_s[axis] += data_exposed_s_;
  }

  [[nodiscard]] double optimizer() const {
    const Parameters held = parameters(layers_of_rank(w_.model, s_, busiest_rank_), busiest_rank_);
    const auto gradient = to_double(w_.precision.gradient_bytes);
    const double by = s_.zero >= 1 ? to_double(shard_) : 1;
    const double by_experts = s_.zero >= 1 ? to_double(std::min(expert_replicas_, shard_)) : 1;
    const double all = w_.engine.gradient_norm_passes * gradient;
    const double whole = s_.zero >= 2 ? 0 : all;  // from ZeRO-2 on of the shard alone
    const double bytes =
        to_double(held.dense) * (whole + (w_.engine.optimizer_bytes + (all - whole)) / by) +
        to_double(held.experts) *
            (whole + (w_.engine.optimizer_bytes + (all - whole)) / by_experts);
    const DeviceSpec& device = w_.cluster.device;
    return bytes / (device.memory_bandwidth.value * device.memory_efficiency.value);
  }

  // The outermost links of each axis, and how long they are in use.
  void set_levels(Breakdown& result) {
    const double m = to_double(micro_batches_);
    const auto set = [&](CommAxis axis, const RankGroup& group) {
      const GroupLinks links = links_of(w_.cluster, group);
      result.traffic[static_cast<size_t>(axis)].level = links.level;
      return links;
    };
    const auto sent_s = [&](CommAxis axis, const GroupLinks& links) {
      const double bytes = result.traffic[static_cast<size_t>(axis)].bytes;
      return links.bandwidth > 0 ? bytes / links.bandwidth : 0;
    };
    const GroupLinks tensor = set(CommAxis::kTensor, {s_.tp, strides_.tp});
    // Sums are counted as a ring carries them; a switch that adds, or two trees, carry half.
    const bool halved =
        !s_.sequence_parallel && (tensor.in_network || (tensor.inside > 0 && tensor.outer == 2));
    load_.add(tensor.level, CommAxis::kTensor,
              sent_s(CommAxis::kTensor, tensor) * (halved ? 0.5 : 1));
    const GroupLinks context = set(CommAxis::kContext, {s_.cp, strides_.data});
    load_.add(context.level, CommAxis::kContext, sent_s(CommAxis::kContext, context));
    const GroupLinks exchange = set(CommAxis::kExpert, {s_.ep, expert_strides_of(s_).ep});
    load_.add(exchange.level, CommAxis::kExpert,
              result.time.exposed_s[static_cast<size_t>(CommAxis::kExpert)]);
    set(CommAxis::kPipeline, {s_.pp, strides_.pp});
    set(CommAxis::kData, {replicas_, strides_.data});
    if (busiest_.gather_wire + busiest_.expert_gather_wire > 0) {
      const GroupLinks shards = links_of(w_.cluster, {shard_, strides_.data});
      load_.add(shards.level, CommAxis::kData, m * busiest_.gather_wire);
      if (busiest_.expert_gather_wire > 0) {
        const GroupLinks experts = links_of(
            w_.cluster, {std::min(expert_replicas_, shard_), expert_strides_of(s_).replicas});
        load_.add(experts.level, CommAxis::kData, m * busiest_.expert_gather_wire);
      }
    }
    if (s_.pp > 1) {
      const auto chunks = to_double(s_.virtual_stages);
      const bool around = named_schedule(s_.schedule).placement == StagePlacement::kLoop;
      add_messages(load_, w_.cluster,
                   {{s_.pp, strides_.pp}, hop_bytes_, m * chunks, around ? m * (chunks - 1) : 0});
    }
  }

  // Whatever hides behind what: the links must carry the bytes.
  void keep_above_links(Breakdown& result) const {
    const LinkLoad::Busiest busiest = load_.busiest();
    StepTime& time = result.time;
    time.link_s = busiest.seconds;
    time.link_axis = busiest.axis;
    if (time.step_s >= time.link_s) return;
    time.exposed_s[static_cast<size_t>(busiest.axis)] += time.link_s - time.step_s;
    time.step_s = time.link_s;
  }

  PassSeconds dense_, experts_, head_, embedding_;
  AxisStrides strides_;
  double hop_bytes_ = 0, hop_s_ = 0, slowest_hop_s_ = 0;
  RankTime busiest_;
  int64_t busiest_rank_ = 0;
  double through_s_ = 0;
  double data_exposed_s_ = 0;
  double tie_s_ = 0;
  LinkLoad load_;
};

}  // namespace tessera
