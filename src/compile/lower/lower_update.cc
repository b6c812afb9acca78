// The end of a step, or of an update within it: norm, counts, optimizer.
#include <algorithm>

#include "base/error.h"
#include "compile/lower/lowering.h"

namespace tessera {

// Every element counts on its one owner: this rank's shard, on the first replica and, for weights
// that tp does not split, on the first tp rank.
void Lowering::lower_sum_squares(size_t b, const Tag& tag) {
  const Bucket& bucket = step_.layout.buckets[b];
  const int replica = step_.mesh.position(program_.rank, step_.layout.replica_axes_of(bucket));
  const bool split_on_tp = step_.layout.split_axes_of(bucket).contains(Axis::kTp);
  if (replica != 0 || (!split_on_tp && coord(Axis::kTp) != 0)) return;
  Node node;
  node.name = bucket.name + ".sum_squares";
  node.tag = tag;
  Instruction& instruction =
      emit(OpKind::kSumSquares, node, -1,
           {buffer(map_.buckets[b].owned_gradient, "d(" + bucket.name + ")")}, {metric_sums()});
  instruction.args.buckets = {{static_cast<int64_t>(b)}};
  instruction.args.lanes = step_.spec.train.lanes;
}

// Where a step's numbers are added up: with lanes as sums that do not depend on who adds them,
// which become the metrics in the end.
BufferId Lowering::metric_sums() {
  return batch_.has_lanes() ? buffer(map_.lane_sums, "lane.sums") : buffer(map_.metrics, "metrics");
}

void Lowering::lower_metrics(const Node& node) {
  if (program_.loss == kNoBuffer) return;  // the stage of the loss counts
  Instruction& instruction = emit(OpKind::kMetrics, node, -1,
                                  {buffer(map_.loss, "loss"), program_.labels}, {metric_sums()});
  // Where two groups do the same, the first counts.
  const int64_t replica = step_.mesh.position(program_.rank, sample_axes());
  instruction.args.owner = coord(Axis::kTp) == 0 && replica < distinct_replicas(step_.spec);
  instruction.args.updates = versions_.updates;
  instruction.args.lanes = step_.spec.train.lanes;
  instruction.args.first_lane = batch_.lanes.first;
}

void Lowering::lower_metrics_sum(const Node& node) {
  if (!batch_.has_lanes()) return lower_cast(node, -1);
  const BufferId sums = metric_sums();
  if (step_.mesh.world() > 1) {
    Instruction& sum = emit(OpKind::kCast, node, -1, {sums}, {sums});
    sum.collective = CastKind::kAllReduce;
    sum.group = step_.mesh.group(node.attrs.axes);
    sum.stream = StreamKind::kComm;
  }
  emit(OpKind::kJoinLanes, node, -1, {sums}, {buffer(map_.metrics, "metrics")}).args.lanes =
      step_.spec.train.lanes;
}

// Makes version `update` of a bucket. The one before stays where it is as long as somebody reads
// it; without a whole master copy the new one begins as its copy.
void Lowering::lower_optimizer(const Node& node, int update) {
  const auto b = static_cast<size_t>(node.attrs.bucket);
  if (step_.shares_weights(program_.rank, b)) return;
  const BucketSlots& slots = map_.buckets[b];
  const Bucket& bucket = step_.layout.buckets[b];
  const BufferId before = weights_buffer(slots.weights, bucket.name, update - 1);
  const BufferId weights = weights_buffer(slots.weights, bucket.name, update);
  const bool whole_master = slots.master.valid() && slots.master.dtype != slots.weights.dtype;
  if (before != weights && !whole_master) {
    emit(OpKind::kCopy, node, -1, {before}, {weights});
  }
  std::vector<BufferId> outputs = {weights};
  if (slots.m.valid()) outputs.push_back(buffer(slots.m, bucket.name + ".m"));
  if (slots.v.valid()) outputs.push_back(buffer(slots.v, bucket.name + ".v"));
  if (slots.master.valid()) outputs.push_back(buffer(slots.master, bucket.name + ".master"));
  BufferId divisor = buffer(map_.metrics, "metrics");
  if (asynchronous()) {
    Slot tokens = map_.update_tokens;
    tokens.shape = {1};
    tokens.offset += (update - 1) * tokens.bytes();
    divisor = buffer(tokens, "update.tokens");
  }
  Instruction& instruction =
      emit(node.op, node, -1, {buffer(slots.gradient, "d(" + bucket.name + ")"), divisor},
           std::move(outputs));
  instruction.args.buckets = {{node.attrs.bucket, bucket.decay}};
  instruction.args.states = step_.spec.optimizer.states();
  instruction.args.update = update;
  instruction.args.updates = versions_.updates;
  const bool gathers =
      step_.spec.parallel.zero >= 1 && step_.layout.shards_of(bucket) > 1 && slots.full.valid();
  if (!gathers) return;
  Instruction& gather = emit(OpKind::kCast, node, -1, {weights},
                             {weights_buffer(slots.full, bucket.name + ".full", update)});
  gather.collective = CastKind::kAllGather;
  gather.group = step_.mesh.group(step_.layout.shard_axes_of(bucket));
  gather.stream = stream_of_weights();
}

// Gradients are sums over tokens; each update is divided by the unmasked ones of its micro-batches
// on all replicas.
void Lowering::count_update_tokens() {
  Node node;
  node.name = "update.tokens";
  node.tag.pass = Pass::kUpdate;
  const BufferId counts = buffer(map_.update_tokens, "update.tokens.all");
  emit(OpKind::kCountTokens, node, -1, {program_.labels}, {counts});
  AxisSet axes;
  for (const Axis axis : kAllAxes) {
    const bool other_tokens =
        graph_.type(step_.forward.labels).on(axis).kind == Placement::Kind::kSplit;
    if (other_tokens && step_.mesh.size(axis) > 1) axes = axes.with(axis);
  }
  if (step_.mesh.size(axes) == 1) return;
  Instruction& sum = emit(OpKind::kCast, node, -1, {counts}, {counts});
  sum.collective = CastKind::kAllReduce;
  sum.group = axes;
  sum.stream = stream_of_weights();
}

// Asynchronous: after the last backward of an update's micro-batches.
void Lowering::lower_stage_update() {
  const PipelineItem& item = items_[static_cast<size_t>(item_)];
  const int last_part =
      static_cast<int>(step_.pipeline.stages[static_cast<size_t>(item.stage)].parts.size()) - 1;
  if (item.part != last_part || !is_last()) return;
  position_ = order_.end.at({item.stage, item.part});
  for (const size_t n : order_.nodes) {
    const Node& node = graph_.nodes()[n];
    if (updates_weights(node.op)) lower_optimizer(node, update_of(item));
  }
}

void Lowering::lower_update() {
  bool started = false;
  for (size_t position = 0; position < order_.nodes.size(); ++position) {
    const Node& node = graph_.nodes()[order_.nodes[position]];
    if (node.tag.pass != Pass::kUpdate) continue;
    position_ = static_cast<int>(position);
    if (!started) emit(OpKind::kZero, node, -1, {}, {metric_sums()});
    started = true;
    if (node.op == OpKind::kTieSum) {
      lower_tie_sum(node);
    } else if (node.op == OpKind::kSumSquares) {
      lower_sum_squares(static_cast<size_t>(node.attrs.bucket), node.tag);
    } else if (node.op == OpKind::kMetrics) {
      lower_metrics(node);
    } else if (node.op == OpKind::kCast) {
      lower_metrics_sum(node);
    } else if (!asynchronous()) {
      lower_optimizer(node, 1);
    }
  }
}

}  // namespace tessera
