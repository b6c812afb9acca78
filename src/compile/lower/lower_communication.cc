// Casts, messages between stages and sums of tied gradients as instructions.
#include <algorithm>

#include "base/error.h"
#include "compile/lower/lowering.h"
#include "compile/passes/passes.h"

namespace tessera {

namespace {

bool is_maximum(const TensorType& type) {
  return std::any_of(kAllAxes.begin(), kAllAxes.end(),
                     [&](Axis axis) { return type.on(axis) == maximum(); });
}

}  // namespace

// A stream of their own, unless nothing else would be on the other.
StreamKind Lowering::stream_of_weights() const {
  const ParallelSpec& parallel = step_.spec.parallel;
  const bool activations_move = parallel.tp > 1 || parallel.cp > 1 || parallel.ep > 1;
  return activations_move ? StreamKind::kData : StreamKind::kComm;
}

void Lowering::lower_cast(const Node& node, int64_t micro_batch) {
  const bool weights = node.attrs.bucket >= 0 && node.tag.pass != Pass::kReduce;
  if (weights && !step_.gathers_weights_per_use()) return;
  if (weights && !step_.releases_weights() && !is_first()) return;  // kept since then
  if (!communicates(graph_, node, step_.mesh)) return;
  if (node.op == OpKind::kShift) return lower_shift(node, micro_batch);
  const ValueId in = node.inputs[0];
  const ValueId out = node.outputs[0];
  const CastKind kind = moving_kind(graph_, node, step_.mesh);
  for (const Axis axis : kAllAxes) {
    if (!node.attrs.axes.contains(axis) || step_.mesh.size(axis) == 1) continue;
    const Placement moved = kind == CastKind::kAllGather ? graph_.type(in).on(axis) : node.attrs.to;
    TESSERA_CHECK(
        moved.kind != Placement::Kind::kSplit || moved.dim == 0 || kind == CastKind::kAllToAll,
        "{} of '{}' along dimension {} is not lowered", collective_name(kind),
        graph_.value(in).name, moved.dim);
  }
  BufferId source = operand(in, micro_batch);
  const BufferId target = operand(out, micro_batch);
  if (kind == CastKind::kAllToAll && map_.staging.contains(out)) {
    return lower_all_to_all(node, micro_batch);
  }
  if (kind == CastKind::kAllReduce && source != target) {
    emit(OpKind::kCopy, node, micro_batch, {source}, {target});
    source = target;
  }
  Instruction& instruction = emit(OpKind::kCast, node, micro_batch, {source}, {target});
  instruction.collective = kind;
  instruction.group = step_.mesh.group(node.attrs.axes);
  instruction.stream = node.attrs.bucket >= 0 ? stream_of_weights() : StreamKind::kComm;
  instruction.maximum = is_maximum(graph_.type(in));
  const bool of_replicas = node.tag.pass == Pass::kReduce && !node.attrs.axes.contains(Axis::kTp);
  const bool sums_of_products = step_.serve.has_value() && kind == CastKind::kAllReduce;
  instruction.tree = (batch_.has_lanes() && of_replicas) || sums_of_products;
  instruction.twins =
      instruction.tree && step_.spec.train.redundancy > 1 && node.attrs.axes.contains(Axis::kDp);
}

void Lowering::lower_shift(const Node& node, int64_t micro_batch) {
  Instruction& instruction =
      emit(OpKind::kCast, node, micro_batch, {operand(node.inputs[0], micro_batch)},
           {operand(node.outputs[0], micro_batch)});
  instruction.collective = CastKind::kShift;
  instruction.group = step_.mesh.group(node.attrs.axes);
  instruction.stream = StreamKind::kComm;
}

// Rows stay rank-major: whoever reads them knows their positions (base/sequence_rows.h).
void Lowering::lower_all_to_all(const Node& node, int64_t micro_batch) {
  const ValueId in = node.inputs[0];
  const ValueId out = node.outputs[0];
  const BufferId blocks =
      buffer(map_.staging.at(out), graph_.value(out).name + ".blocks", micro_batch);
  const bool to_columns = node.attrs.to == split(1);
  if (to_columns) {
    emit(OpKind::kSplitColumns, node, micro_batch, {operand(in, micro_batch)}, {blocks})
        .args.column_groups = node.attrs.column_groups;
  }
  Instruction& instruction =
      emit(OpKind::kCast, node, micro_batch, {to_columns ? blocks : operand(in, micro_batch)},
           {to_columns ? operand(out, micro_batch) : blocks});
  instruction.collective = CastKind::kAllToAll;
  instruction.group = step_.mesh.group(node.attrs.axes);
  instruction.stream = StreamKind::kComm;
  if (!to_columns) {
    emit(OpKind::kJoinColumns, node, micro_batch, {blocks}, {operand(out, micro_batch)})
        .args.column_groups = node.attrs.column_groups;
  }
}

// A value goes to, or comes from, the rank of another stage with the same place on all other axes.
void Lowering::lower_message(const PipelineItem& item) {
  const StageCrossing& crossing = step_.pipeline.crossings[static_cast<size_t>(item.crossing)];
  const bool send = item.kind == PipelineItem::Kind::kSend;
  const int stage = send ? crossing.to_stage : crossing.from_stage;
  const BufferId data = operand(crossing.value, item.micro_batch);
  Node node;
  node.name = graph_.value(crossing.value).name;
  const auto [tag, fresh] = crossing_tags_.try_emplace(item.crossing);
  if (fresh) tag->second = step_.pipeline.tag_of(graph_, crossing);
  node.tag = tag->second;
  Instruction& instruction = send ? emit(OpKind::kSend, node, item.micro_batch, {data}, {})
                                  : emit(OpKind::kReceive, node, item.micro_batch, {}, {data});
  instruction.stream = StreamKind::kPipe;
  instruction.group = Axis::kPp;
  instruction.peer = step_.stages.schedule.rank_of_stage[static_cast<size_t>(stage)];
}

// First the embedding's gradient, then the head's, whether they meet on one rank or on two: that
// makes the bits of a step the same for every schedule.
void Lowering::lower_tie_sum(const Node& node) {
  const auto b = static_cast<size_t>(node.attrs.bucket);
  const auto gradient_of = [&](size_t bucket) {
    return buffer(map_.buckets[bucket].gradient, "d(" + step_.layout.buckets[bucket].name + ")");
  };
  const BufferId gradient = gradient_of(b);
  for (size_t copy = 0; copy < map_.buckets.size(); ++copy) {
    if (!step_.shares_weights(program_.rank, copy)) continue;
    if (copy != b) emit(OpKind::kAccumulate, node, -1, {gradient_of(copy)}, {gradient});
    return;
  }
  Instruction& instruction = emit(OpKind::kTieSum, node, -1, {gradient}, {gradient});
  instruction.collective = CastKind::kAllReduce;
  instruction.group = Axis::kPp;
  instruction.ends_only = true;
  instruction.stream = stream_of_weights();
}

}  // namespace tessera
