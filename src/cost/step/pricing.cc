#include "cost/step/pricing.h"

#include <algorithm>
#include <utility>

#include "base/rounding.h"
#include "compile/pipeline/schedule/named_schedule.h"
#include "cost/step/to_double.h"

namespace tessera {
namespace {

constexpr size_t index(CommAxis axis) { return static_cast<size_t>(axis); }

}  // namespace

Breakdown Pricing::step() {
  Breakdown result;
  find_stages();
  const double m = to_double(l_.micro_batches);
  const double steady = m * busiest_.seconds;
  result.time.compute_s = m * (busiest_.seconds - busiest_.exposed_total());
  result.time.recompute_s = m * busiest_.again;
  for (size_t i = 0; i < kNumCommAxes; ++i) {
    result.time.exposed_s[i] = m * busiest_.exposed[i];
    result.traffic[i].bytes = m * busiest_.bytes[i];
    result.traffic[i].busy_s = m * busiest_.exposed[i];
  }
  result.time.bubble_s = bubble();
  const double slow_s = m * times_.slow_messages_s();
  result.time.exposed_s[index(CommAxis::kPipeline)] += slow_s;
  add_data_parallel(result);
  result.time.optimizer_s = optimizer_s();
  result.time.step_s =
      steady + slow_s + result.time.bubble_s + data_exposed_s_ + result.time.optimizer_s;
  add_elementwise_again(result.time);
  set_levels(result);
  keep_above_links(result);
  return result;
}

double Pricing::forward_kernels_s() const {
  return to_double(l_.micro_batches) *
         (busiest_.forward - times_.forward_comm_s(busiest_rank_, busiest_layers_));
}

PipelineSeconds Pricing::pipeline() {
  PipelineSeconds price;
  find_stages();
  const Strategy& s = l_.s;
  const int64_t stages = s.pp * s.virtual_stages, stride = times_.strides().pp;
  for (int64_t stage = 0; stage < stages; ++stage) price.stages.push_back(times_.stage_time(stage));
  for (int64_t stage = 0; stage + 1 < stages; ++stage) {
    const int64_t from = rank_of_stage(s, stage), to = rank_of_stage(s, stage + 1);
    const SendTime sent = send_time(l_.w.cluster, from * stride, to * stride, times_.hop_bytes());
    price.messages.push_back({sent.latency_s, sent.wire_s});
  }
  Breakdown once;
  add_data_parallel(once);
  for (size_t i = 0; i < kNumCommAxes; ++i) {
    price.exposed_s[i] = to_double(l_.micro_batches) * busiest_.exposed[i] + once.time.exposed_s[i];
  }
  price.exposed_s[index(CommAxis::kPipeline)] = 0;
  price.once_s = data_exposed_s_ + optimizer_s();
  return price;
}

double Pricing::stages_bound_s(double busiest_s) const {
  const double mean = times_.mean_rank_s() + times_.mean_messages_s() + times_.mean_gathering_s();
  const double bubbles = l_.s.pp > 1 ? bubble_share(times_.largest_weight_share()) : 0;
  return (to_double(l_.micro_batches) - bubbles) * std::max(mean, busiest_s) +
         bubbles * to_double(l_.s.pp) * mean;
}

// The busiest rank, and the time of one micro-batch through all.
void Pricing::find_stages() {
  const auto meet = [&](int64_t rank, const RankLayers& layers, const RankTime& time,
                        double times) {
    through_s_ += times * time.seconds;
    if (time.seconds <= busiest_.seconds) return;
    busiest_ = time;
    busiest_rank_ = rank;
    busiest_layers_ = layers;
  };
  const auto meet_rank = [&](int64_t rank, double times) {
    const RankLayers layers = l_.layers.of_rank(rank);
    meet(rank, layers, times_.rank_time(rank, layers), times);
  };
  const int64_t last = l_.s.pp - 1;
  meet_rank(0, 1);
  if (l_.layers.middle_is_uniform()) {
    if (last > 1) meet_rank(1, to_double(last - 1));
  } else {
    // Ranks mostly have one of two numbers of layers, and those with the same take the same time.
    RankLayers one = {.dense = -1}, other = one;
    double one_s = 0, other_s = 0;
    for (int64_t rank = 1; rank < last; ++rank) {
      const RankLayers layers = l_.layers.of_rank(rank);
      if (layers == other) {
        std::swap(one, other);
        std::swap(one_s, other_s);
      }
      if (layers == one) {
        through_s_ += one_s;
        continue;
      }
      const RankTime time = times_.rank_time(rank, layers);
      meet(rank, layers, time, 1);
      other = std::exchange(one, layers);
      other_s = std::exchange(one_s, time.seconds);
    }
  }
  if (last > 0) meet_rank(last, 1);
}

double Pricing::bubble() const {
  if (l_.s.pp == 1) return 0;
  const double once =
      (through_s_ - busiest_.seconds) * bubble_share(busiest_.weight / busiest_.seconds);
  return l_.s.one_micro_batch_at_a_time ? once * to_double(l_.micro_batches) : once;
}

// The part of the other ranks' time that the busiest one waits. `weight`: of its time for a
// micro-batch, what weight gradients are.
double Pricing::bubble_share(double weight) const {
  return idle_share(l_.s.schedule, l_.s.virtual_stages, weight);
}

// Every stage takes longer by the same, so the bubble does as the kernels do.
void Pricing::add_elementwise_again(StepTime& time) const {
  const double layer_s = times_.elementwise_again_s();
  if (layer_s == 0) return;
  const double layers = to_double(ceil_div(l_.w.model.layers, l_.s.pp));
  const double extra = layer_s * layers * to_double(l_.micro_batches);
  const double bubble = time.compute_s > 0 ? extra * time.bubble_s / time.compute_s : 0;
  time.compute_s += extra;
  time.recompute_s += extra;
  time.bubble_s += bubble;
  time.step_s += extra + bubble;
}

bool Pricing::adds_every_micro_batch() const {
  return l_.w.engine.adds_every_micro_batch != 0 && l_.s.zero >= 2;
}

void Pricing::add_data_parallel(Breakdown& result) {
  data_links_ = links_of(l_.w.cluster, {l_.replicas, times_.strides().data});
  DataParallel sums =
      l_.s.zero == 3 ? sum_across_shards() : sum_over_replicas(busiest_rank_, busiest_layers_);
  const size_t data = index(CommAxis::kData), tensor = index(CommAxis::kTensor);
  result.traffic[data].bytes += sums.bytes;
  result.traffic[data].busy_s += sums.once_s;
  const double on_tp_s = add_expert_sums_over_tp(sums);
  result.traffic[tensor].busy_s += on_tp_s;
  const double exposed = std::max(exposed_s(sums, busiest_), first_rank_exposed_s());
  const double exposed_on_tp = on_tp_s > 0 ? exposed * on_tp_s / sums.once_s : 0;
  data_exposed_s_ = exposed + tied_sum_s();
  result.time.exposed_s[tensor] += exposed_on_tp;
  result.time.exposed_s[data] += data_exposed_s_ - exposed_on_tp;
}

// ZeRO-3 gathers and scatters in every micro-batch; replicas of a shard group still add their
// gradients up, where the layers have not done so.
Pricing::DataParallel Pricing::sum_across_shards() {
  if (l_.shard >= l_.replicas || adds_every_micro_batch()) return {};
  const RankLayout::Parameters held = l_.parameters(busiest_layers_, busiest_rank_);
  const RankGroup across{l_.replicas / l_.shard, times_.strides().data * l_.shard};
  const double bytes =
      to_double((held.dense + held.experts) * l_.w.precision.gradient_bytes) / to_double(l_.shard);
  const GroupLinks links = links_of(l_.w.cluster, across);
  const double wire_s = least_all_reduce_wire_s(links, across.ranks, bytes);
  load_.add(links.level, CommAxis::kData, wire_s);
  return {.once_s = all_reduce_s(l_.w.cluster, links, across.ranks, bytes),
          .bytes = 2 * bytes,
          .wire_s = wire_s};
}

Pricing::DataParallel Pricing::sum_over_replicas(int64_t rank, const RankLayers& layers,
                                                 bool counted) {
  const RankLayout::Parameters held = l_.parameters(layers, rank);
  DataParallel sums;
  const SumBuckets calls = l_.buckets(layers, rank);
  sum_over({l_.replicas, times_.strides().data}, data_links_,
           {held.dense, calls.dense, calls.small}, sums, counted);
  if (l_.expert_replicas > 1 && held.experts > 0) {
    const RankGroup group{l_.expert_replicas, l_.expert_stride};
    sum_over(group, links_of(l_.w.cluster, group), {held.experts, calls.experts}, sums, counted);
  }
  return sums;
}

// The first rank comes to its end last, or with all others, and the gradient of its table is there
// only then.
double Pricing::first_rank_exposed_s() {
  const bool counts = l_.w.engine.messages_in_order != 0 && l_.s.zero < 2 && l_.replicas > 1;
  if (!counts || l_.s.pp == 1 || busiest_rank_ == 0 || !l_.w.overlap.data) return 0;
  const RankLayers layers = l_.layers.of_rank(0);
  const DataParallel sums = sum_over_replicas(0, layers, /*counted=*/false);
  const double table = to_double(l_.w.model.table_parameters() / l_.s.tp);
  const double held = to_double(l_.parameters(layers, 0).dense);
  const double last_s = held > 0 ? (sums.once_s - sums.gather_s) * std::min(1.0, table / held) : 0;
  return exposed_s(sums, times_.rank_time(0, layers), last_s);
}

void Pricing::sum_over(const RankGroup& group, const GroupLinks& links, const Summed& summed,
                       DataParallel& sums, bool counted) {
  if (group.ranks <= 1 || summed.parameters == 0) return;
  const Cluster& cluster = l_.w.cluster;
  const double gradients = to_double(summed.parameters * l_.w.precision.gradient_bytes);
  const double weights = to_double(summed.parameters * l_.w.precision.parameter_bytes);
  const double share = to_double(group.ranks - 1) / to_double(group.ranks);
  if (l_.s.zero == 0) {
    sums.once_s += in_buckets_s(summed.buckets, summed.small, gradients, [&](double bytes) {
      return all_reduce_s(cluster, links, group.ranks, bytes);
    });
    sums.bytes += 2 * share * gradients;
    const double wire_s = least_all_reduce_wire_s(links, group.ranks, gradients);
    sums.wire_s += wire_s;
    if (counted) load_.add(links.level, CommAxis::kData, wire_s);
    return;
  }
  const auto gather_s = [&](double bytes) {
    return in_buckets_s(summed.buckets, summed.small, bytes, [&](double part) {
      return all_gather_s(cluster, links, group.ranks, part);
    });
  };
  // ZeRO-2 sums in every micro-batch, in the layers or after them.
  const double rounds = l_.s.zero != 2 ? 1 : l_.sums_in_layers() ? 0 : to_double(l_.micro_batches);
  const double new_weights_s = gather_s(weights);
  sums.once_s += rounds * gather_s(gradients) + new_weights_s;
  sums.gather_s += new_weights_s;
  sums.bytes += share * (rounds * gradients + weights);
  const double wire_s = all_gather_wire_s(links, group.ranks, rounds * gradients + weights);
  sums.wire_s += wire_s;
  if (counted) load_.add(links.level, CommAxis::kData, wire_s);
}

// Before the sums over replicas, where the layers have not done so.
double Pricing::add_expert_sums_over_tp(DataParallel& sums) {
  if (!l_.experts_on_tp || (l_.sums_in_layers() && l_.replicas > 1)) return 0;
  const int64_t experts = l_.parameters(busiest_layers_, busiest_rank_).experts;
  const int64_t buckets = l_.buckets(busiest_layers_, busiest_rank_).experts;
  const double bytes = to_double(experts * l_.w.precision.gradient_bytes);
  const GroupLinks links = links_of(l_.w.cluster, {l_.s.tp, times_.strides().tp});
  const double seconds = in_buckets_s(buckets, 0, bytes, [&](double part) {
    return all_reduce_s(l_.w.cluster, links, l_.s.tp, part);
  });
  const double wire_s = least_all_reduce_wire_s(links, l_.s.tp, bytes);
  load_.add(links.level, CommAxis::kTensor, wire_s);
  sums.once_s += seconds;
  sums.wire_s += wire_s;
  return seconds;
}

// Gradients leave while the last backward runs; gathered weights arrive during the first forward,
// or at once, beside the rest of the update.
double Pricing::exposed_s(const DataParallel& sums, const RankTime& rank, double last_s) const {
  const EngineNumbers& engine = l_.w.engine;
  if (!l_.w.overlap.data) return sums.once_s;
  const bool at_once = engine.gathers_after_update != 0;
  const bool in_forward = l_.s.zero > 0 && !at_once;
  const double window =
      adds_every_micro_batch()
          ? 0
          : engine.overlap_window * (last_backwards_s(rank) + (in_forward ? rank.forward : 0));
  const double after_s = at_once ? sums.gather_s : 0;
  const double beside_s = sums.once_s - after_s;
  const double on_wire = sums.once_s > 0 ? sums.wire_s / sums.once_s : 0;
  const Overlapped both = overlap(engine, {beside_s, on_wire * beside_s, window,
                                           std::max(last_s, beside_s * engine.last_bucket)});
  // The last backward goes from stage to stage, and each of them is slower, unless weight gradients
  // come after it.
  const bool in_turn = engine.messages_in_order != 0 && !fills_with_weight_gradients(l_.s);
  const double stages_before =
      in_turn ? to_double(l_.s.pp - 1) / to_double(l_.s.virtual_stages) : 0;
  return both.exposed_s + stages_before * both.slower_s + after_s -
         std::min(after_s, later_updates_s());
}

// From the first gradients that are complete to the last. A rank with several stages ends them one
// after the other, each with as many micro-batches as there are ranks.
double Pricing::last_backwards_s(const RankTime& rank) const {
  const Strategy& s = l_.s;
  const bool loop = s.pp > 1 && named_schedule(s.schedule).placement == StagePlacement::kLoop;
  if (!loop || l_.w.engine.messages_in_order == 0) return rank.backward;
  const int64_t later = (s.virtual_stages - 1) * std::min(s.pp, l_.micro_batches);
  return rank.backward * to_double(later + 1) / to_double(s.virtual_stages);
}

// The part of the update that runs while the weights of the first buckets are gathered.
double Pricing::later_updates_s() const {
  const double together = l_.w.engine.update_buckets;
  const SumBuckets buckets = l_.buckets(busiest_layers_, busiest_rank_);
  const double all = to_double(buckets.dense + buckets.experts + buckets.small);
  if (together == 0 || all <= together) return 0;
  const RankLayout::Parameters held = l_.parameters(busiest_layers_, busiest_rank_);
  const double weights = to_double(held.dense) / to_double(l_.shard) +
                         to_double(held.experts) / to_double(l_.expert_shard());
  const DeviceSpec& device = l_.w.cluster.device;
  return (1 - together / all) * weights * l_.w.engine.optimizer_bytes /
         (device.memory_bandwidth.value * device.memory_efficiency.value);
}

// Both ends of the pipeline have the table and add up its gradients.
double Pricing::tied_sum_s() const {
  if (!l_.w.model.tied || l_.head_rank == 0) return 0;
  const RankGroup ends{2, times_.strides().pp * (l_.s.pp - 1)};
  // Where collectives are counted one by one, replicas have added up before, and each its shard.
  const bool of_shard = l_.w.engine.sum_bucket_bytes != 0 && l_.s.zero >= 1;
  const double bytes =
      to_double(l_.w.model.table_parameters() / l_.s.tp * l_.w.precision.gradient_bytes) /
      (of_shard ? to_double(l_.shard) : 1.0);
  return all_reduce_s(l_.w.cluster, ends, bytes);
}

double Pricing::optimizer_s() const {
  const RankLayout::Parameters held = l_.parameters(busiest_layers_, busiest_rank_);
  const EngineNumbers& engine = l_.w.engine;
  const auto gradient = to_double(l_.w.precision.gradient_bytes);
  const double by = l_.s.zero >= 1 ? to_double(l_.shard) : 1;
  const double by_experts = l_.s.zero >= 1 ? to_double(l_.expert_shard()) : 1;
  const double all = engine.gradient_norm_passes * gradient;
  const double whole = l_.s.zero >= 2 ? 0 : all;  // from ZeRO-2 on of the shard alone
  const double shared = engine.optimizer_bytes + (all - whole);
  const double bytes = to_double(held.dense) * (whole + shared / by) +
                       to_double(held.experts) * (whole + shared / by_experts);
  const DeviceSpec& device = l_.w.cluster.device;
  return bytes / (device.memory_bandwidth.value * device.memory_efficiency.value);
}

// The outermost links of each axis, and how long they are in use.
void Pricing::set_levels(Breakdown& result) {
  const Strategy& s = l_.s;
  const AxisStrides& strides = times_.strides();
  const auto set = [&](CommAxis axis, const RankGroup& group) {
    const GroupLinks links = links_of(l_.w.cluster, group);
    result.traffic[index(axis)].level = links.level;
    return links;
  };
  const auto sent_s = [&](CommAxis axis, const GroupLinks& links) {
    return links.bandwidth > 0 ? result.traffic[index(axis)].bytes / links.bandwidth : 0;
  };
  const GroupLinks tensor = set(CommAxis::kTensor, {s.tp, strides.tp});
  // Sums are counted as a ring carries them; a switch that adds, or two trees, carry half.
  const bool halved =
      !s.sequence_parallel && (tensor.in_network || (tensor.inside > 0 && tensor.outer == 2));
  load_.add(tensor.level, CommAxis::kTensor,
            sent_s(CommAxis::kTensor, tensor) * (halved ? 0.5 : 1));
  const GroupLinks context = set(CommAxis::kContext, {s.cp, strides.data});
  load_.add(context.level, CommAxis::kContext, sent_s(CommAxis::kContext, context));
  if (l_.has_experts()) {
    const GroupLinks exchange = set(CommAxis::kExpert, {s.ep, expert_strides_of(s).ep});
    load_.add(exchange.level, CommAxis::kExpert, result.time.exposed_s[index(CommAxis::kExpert)]);
  }
  set(CommAxis::kPipeline, {s.pp, strides.pp});
  result.traffic[index(CommAxis::kData)].level = data_links_.level;
  add_gathering_load();
  if (s.pp > 1) {
    const auto m = to_double(l_.micro_batches), chunks = to_double(s.virtual_stages);
    const bool around = named_schedule(s.schedule).placement == StagePlacement::kLoop;
    add_messages(
        load_, l_.w.cluster,
        {{s.pp, strides.pp}, times_.hop_bytes(), m * chunks, around ? m * (chunks - 1) : 0});
    AxisTraffic& messages = result.traffic[index(CommAxis::kPipeline)];
    messages.busy_s = load_.seconds(messages.level, CommAxis::kPipeline);
  }
}

void Pricing::add_gathering_load() {
  if (busiest_.across_wire > 0) {
    const RankGroup across{l_.replicas / l_.shard, times_.strides().data * l_.shard};
    load_.add(links_of(l_.w.cluster, across).level, CommAxis::kData,
              to_double(l_.micro_batches) * busiest_.across_wire);
  }
  if (busiest_.gather_wire + busiest_.expert_gather_wire == 0) return;
  const double m = to_double(l_.micro_batches);
  const GroupLinks shards = links_of(l_.w.cluster, {l_.shard, times_.strides().data});
  load_.add(shards.level, CommAxis::kData, m * busiest_.gather_wire);
  if (busiest_.expert_gather_wire == 0) return;
  const GroupLinks experts = links_of(l_.w.cluster, {l_.expert_shard(), l_.expert_stride});
  load_.add(experts.level, CommAxis::kData, m * busiest_.expert_gather_wire);
}

// Whatever hides behind what: the links must carry the bytes.
void Pricing::keep_above_links(Breakdown& result) const {
  const LinkLoad::Busiest busiest = load_.busiest();
  StepTime& time = result.time;
  time.link_s = busiest.seconds;
  time.link_axis = busiest.axis;
  if (time.step_s >= time.link_s) return;
  time.exposed_s[index(busiest.axis)] += time.link_s - time.step_s;
  time.step_s = time.link_s;
}

}  // namespace tessera
