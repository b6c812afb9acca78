// Graph -> instructions of one rank. The parts of a stage repeat the same nodes for every
// micro-batch, over the instances of storages that the micro-batch has.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/sequence_rows.h"
#include "base/workspace.h"
#include "compile/arena_layout.h"
#include "compile/dropout.h"
#include "compile/events.h"
#include "compile/instances.h"
#include "compile/moe.h"
#include "compile/passes.h"
#include "compile/step.h"
#include "compile/storage.h"
#include "spec/validate.h"

namespace tessera {
namespace {

// Kernels that take the value they add to as an input.
bool adds_in_kernel(OpKind op) { return op == OpKind::kRmsNormDx || op == OpKind::kLayerNormDx; }

class Lowering {
 public:
  Lowering(const StepGraph& step, int rank)
      : step_(step),
        graph_(step.graph()),
        order_(nodes_of(step, rank)),
        map_(assign_storage(step, order_, rank)),
        items_(step.pipeline.items[static_cast<size_t>(step.mesh.coord(rank, Axis::kPp))]),
        versions_(step.stages.versions_of(static_cast<int>(step.mesh.coord(rank, Axis::kPp)))),
        instances_(count_instances(step, map_, items_)) {
    program_.rank = rank;
    program_.mesh = step.mesh;
    const std::vector<int>& rank_of_stage = step.stages.schedule.rank_of_stage;
    program_.pipeline_ends = {rank_of_stage.front(), rank_of_stage.back()};
    program_.threads = static_cast<int>(step.spec.train.threads);
    program_.micro_batches = step.training ? accumulation(step.spec) : 1;
    program_.weight_versions = versions_.slots;
  }

  Program run();

 private:
  void lower_node(const Node& node, int64_t micro_batch);
  void lower_cast(const Node& node, int64_t micro_batch);
  void lower_shift(const Node& node, int64_t micro_batch);
  void lower_all_to_all(const Node& node, int64_t micro_batch);
  void lower_pack(const Node& node, int64_t micro_batch);
  void lower_kernel(const Node& node, int64_t micro_batch);
  void finish_bucket_gradient(const Node& node, int64_t micro_batch);
  void lower_message(const PipelineItem& item);
  void lower_tie_sum(const Node& node);
  void lower_update();
  void lower_sum_squares(size_t bucket, const Tag& tag);
  void count_update_tokens();
  void lower_stage_update();
  void lower_adamw(const Node& node, int update);
  KernelArgs args_of(const Node& node) const;
  void add_context_args(const Node& node, KernelArgs& args) const;
  [[nodiscard]] int64_t keys_per_sequence(const Node& node) const;
  void reserve_scratch(const Node& node);
  void publish_buffers();

  Instruction& emit(OpKind op, const Node& node, int64_t micro_batch, std::vector<BufferId> inputs,
                    std::vector<BufferId> outputs);
  BufferId buffer(const Slot& slot, const std::string& name, int64_t micro_batch = 0);
  BufferId weights_buffer(const Slot& slot, const std::string& name, int version);
  BufferId instance_buffer(const Slot& slot, const std::string& name, int instance, int64_t offset);
  BufferId operand(ValueId value, int64_t micro_batch) {
    return buffer(map_.slots.at(value), graph_.value(value).name, micro_batch);
  }
  [[nodiscard]] int64_t coord(Axis axis) const { return step_.mesh.coord(program_.rank, axis); }
  [[nodiscard]] bool asynchronous() const { return step_.stages.schedule.asynchronous; }
  // Among the micro-batches of an update, which may run in any order that the schedule says.
  [[nodiscard]] bool is_first() const { return item_ < 0 || ends_of_part().first == item_; }
  [[nodiscard]] bool is_last() const { return item_ < 0 || ends_of_part().second == item_; }
  [[nodiscard]] std::pair<int, int> ends_of_part() const {
    const PipelineItem& item = items_[static_cast<size_t>(item_)];
    return part_ends_.at({item.stage, item.part, update_of(item)});
  }
  [[nodiscard]] int update_of(const PipelineItem& item) const {
    return versions_.update_of[static_cast<size_t>(item.micro_batch)];
  }
  [[nodiscard]] bool is_first_of_step() const {
    return is_first() && (item_ < 0 || update_of(items_[static_cast<size_t>(item_)]) == 1);
  }
  void find_part_ends();
  [[nodiscard]] std::vector<int> part_end_positions() const;

  const StepGraph& step_;
  const Graph& graph_;
  RankNodes order_;
  StorageMap map_;
  const std::vector<PipelineItem>& items_;
  const StageVersions& versions_;
  InstanceMap instances_;
  Program program_;
  std::vector<Region> region_of_;         // per buffer
  std::vector<InstructionPlace> places_;  // per instruction
  // First and last item of (stage, part, update).
  std::map<std::tuple<int, int, int>, std::pair<int, int>> part_ends_;
  std::map<std::tuple<StorageId, int, int64_t, DType, Shape>, BufferId> known_;
  int position_ = 0;
  int item_ = -1;  // -1: outside of micro-batches
  int64_t scratch_bytes_ = 0;
};

BufferId Lowering::buffer(const Slot& slot, const std::string& name, int64_t micro_batch) {
  const Storage& storage = map_.storages[static_cast<size_t>(slot.storage)];
  const int64_t offset = slot.offset + storage.micro_batch_stride * micro_batch;
  if (storage.kind == StorageKind::kPersistent && storage.instances > 1) {
    return weights_buffer(slot, name, versions_.version_of[static_cast<size_t>(micro_batch)]);
  }
  const int instance = instances_.of(storage, slot.storage, static_cast<int>(micro_batch));
  return instance_buffer(slot, name, instance, offset);
}

BufferId Lowering::weights_buffer(const Slot& slot, const std::string& name, int version) {
  return instance_buffer(slot, name, versions_.slot_of[static_cast<size_t>(version)], slot.offset);
}

BufferId Lowering::instance_buffer(const Slot& slot, const std::string& name, int instance,
                                   int64_t offset) {
  const Storage& storage = map_.storages[static_cast<size_t>(slot.storage)];
  const auto key = std::make_tuple(slot.storage, instance, offset, slot.dtype, slot.shape);
  const auto [found, fresh] =
      known_.try_emplace(key, static_cast<BufferId>(program_.buffers.size()));
  if (fresh) {
    program_.buffers.push_back({name, slot.dtype, slot.shape, storage.arena, offset});
    region_of_.push_back({slot.storage, instance, storage.kind == StorageKind::kPersistent});
  }
  return found->second;
}

Instruction& Lowering::emit(OpKind op, const Node& node, int64_t micro_batch,
                            std::vector<BufferId> inputs, std::vector<BufferId> outputs) {
  Instruction instruction;
  instruction.op = op;
  instruction.inputs = std::move(inputs);
  instruction.outputs = std::move(outputs);
  instruction.name = node.name;
  instruction.tag = node.tag;
  instruction.micro_batch = static_cast<int>(micro_batch);
  places_.push_back({position_, item_});
  program_.instructions.push_back(std::move(instruction));
  return program_.instructions.back();
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
  instruction.stream = StreamKind::kComm;
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

// Gaps between the weights of a bucket must be zero before they are summed over ranks; memory that
// persists is zero from the start.
void Lowering::lower_pack(const Node& node, int64_t micro_batch) {
  if (step_.keeps_full_gradients()) return;
  const Bucket& bucket = step_.layout.buckets[static_cast<size_t>(node.attrs.bucket)];
  const Slot whole = map_.slots.at(node.outputs[0]);
  int64_t at = 0;
  const auto zero_until = [&](int64_t end) {
    if (end == at) return;
    Slot gap = whole;
    gap.shape = {end - at};
    gap.offset += at * size_bytes(whole.dtype);
    emit(OpKind::kZero, node, micro_batch, {}, {buffer(gap, bucket.name + ".gap", micro_batch)});
  };
  for (const Weight& weight : bucket.weights) {
    zero_until(weight.offset);
    at = weight.offset + numel(weight.local_shape);
  }
  zero_until(bucket.numel);
}

// After the last cast of a bucket's gradient: into the accumulator, unless it is there already.
void Lowering::finish_bucket_gradient(const Node& node, int64_t micro_batch) {
  if (step_.keeps_full_gradients() || node.attrs.bucket < 0 || node.tag.pass != Pass::kReduce)
    return;
  const auto b = static_cast<size_t>(node.attrs.bucket);
  if (node.outputs[0] != step_.bucket_gradient[b]) return;
  const BufferId reduced = operand(node.outputs[0], micro_batch);
  const BufferId kept = buffer(map_.buckets[b].gradient, "d(" + step_.layout.buckets[b].name + ")");
  emit(is_first() ? OpKind::kCopy : OpKind::kAccumulate, node, micro_batch, {reduced}, {kept});
}

KernelArgs Lowering::args_of(const Node& node) const {
  KernelArgs args;
  args.head_dim = node.attrs.head_dim;
  args.seq_len = node.attrs.seq_len;
  args.eps = node.attrs.eps;
  args.inverse = node.attrs.inverse;
  args.experts = expert_args(step_, node, program_.rank);
  const int64_t tp = step_.mesh.size(Axis::kTp);
  const auto split_on_tp = [&](size_t input) {
    return graph_.type(node.inputs[input]).on(Axis::kTp).kind == Placement::Kind::kSplit;
  };
  args.window = node.attrs.window;
  switch (node.op) {
    case OpKind::kDropout:
    case OpKind::kAddPositions:
    case OpKind::kPositionsDw:
      args.parts = step_.mesh.size(Axis::kCp);
      args.q_part = coord(Axis::kCp);
      // With sequence parallelism a rank's tokens begin inside a sequence, or at a later one.
      if (split_on_tp(0)) {
        args.first_token = coord(Axis::kTp) * map_.slots.at(node.inputs[0]).shape[0];
      }
      break;
    case OpKind::kRope:
      args.heads = node.attrs.heads / (split_on_tp(0) ? tp : 1);
      break;
    case OpKind::kAttention:
    case OpKind::kAttentionGrad:
    case OpKind::kAttentionPart:
    case OpKind::kAttentionGradPart: {
      args.heads = node.attrs.heads / (split_on_tp(0) ? tp : 1);
      args.kv_heads = node.attrs.kv_heads / (split_on_tp(1) ? tp : 1);
      args.heads_per_kv = node.attrs.heads / node.attrs.kv_heads;
      if (split_on_tp(0)) args.first_head = coord(Axis::kTp) * args.heads;
      if (split_on_tp(1)) args.first_kv_head = coord(Axis::kTp) * args.kv_heads;
      add_context_args(node, args);
      break;
    }
    case OpKind::kEmbedding:
    case OpKind::kEmbeddingDw:
    case OpKind::kCrossEntropyStats:
    case OpKind::kCrossEntropyGrad: {
      int64_t rows = 0;  // of the vocabulary on this rank
      if (node.op == OpKind::kEmbedding) rows = map_.slots.at(node.inputs[1]).shape[0];
      if (node.op == OpKind::kEmbeddingDw) rows = map_.slots.at(node.outputs[0]).shape[0];
      if (rows == 0) rows = map_.slots.at(node.inputs[0]).shape[1];
      args.first_row = coord(Axis::kTp) * rows;
      args.valid_rows = std::clamp<int64_t>(node.attrs.vocab - args.first_row, 0, rows);
      break;
    }
    default:
      break;
  }
  return args;
}

int64_t Lowering::keys_per_sequence(const Node& node) const {
  const bool split_keys = graph_.type(node.inputs[1]).on(Axis::kCp) == split(0);
  return node.attrs.seq_len / (split_keys ? step_.mesh.size(Axis::kCp) : 1);
}

// Whose tokens and which heads: the ranks of cp share either the rows of q and kv or their columns.
void Lowering::add_context_args(const Node& node, KernelArgs& args) const {
  const int64_t cp = step_.mesh.size(Axis::kCp);
  if (cp == 1) return;
  const Placement q = graph_.type(node.inputs[0]).on(Axis::kCp);
  const Placement kv = graph_.type(node.inputs[1]).on(Axis::kCp);
  const bool whole = node.op == OpKind::kAttention || node.op == OpKind::kAttentionGrad;
  TESSERA_CHECK(!whole || !(kv == split(0)), "'{}': the ring over cp was not expanded", node.name);
  const int64_t me = coord(Axis::kCp);
  args.parts = cp;
  args.q_part = q == split(0) ? me : SequenceRows::kAllParts;
  args.kv_part = kv == split(0) ? (me + cp - node.attrs.hop) % cp : SequenceRows::kAllParts;
  if (q == split(1)) {
    args.heads /= cp;
    args.first_head += me * args.heads;
  }
  if (kv == split(1)) {
    args.kv_heads /= cp;
    args.first_kv_head += me * args.kv_heads;
  }
}

void Lowering::reserve_scratch(const Node& node) {
  const DType dtype = step_.spec.train.dtype;
  const int threads = program_.threads;
  const auto shape = [&](ValueId value) { return map_.slots.at(value).shape; };
  int64_t bytes = 0;
  switch (node.op) {
    case OpKind::kLinear: {
      const Shape x = shape(node.inputs[0]);
      bytes = workspace::linear(dtype, x[0], shape(node.inputs[1])[0], x[1], threads);
      break;
    }
    case OpKind::kLinearDx: {
      const Shape w = shape(node.inputs[1]);
      bytes = workspace::linear(dtype, shape(node.inputs[0])[0], w[0], w[1], threads);
      break;
    }
    case OpKind::kLinearDw: {
      const Shape dw = shape(node.outputs[0]);
      bytes = workspace::linear(dtype, shape(node.inputs[0])[0], dw[0], dw[1], threads);
      break;
    }
    case OpKind::kRmsNormDw: {
      const Shape x = shape(node.inputs[1]);
      bytes = workspace::rms_norm_dw(dtype, x[0], x[1], threads);
      break;
    }
    case OpKind::kAttention:
    case OpKind::kAttentionPart:
      bytes = workspace::attention(dtype, keys_per_sequence(node), node.attrs.head_dim, threads);
      break;
    case OpKind::kAttentionGrad:
    case OpKind::kAttentionGradPart:
      bytes =
          workspace::attention_grad(dtype, keys_per_sequence(node), node.attrs.head_dim, threads);
      break;
    case OpKind::kSumSquares:
      bytes = workspace::sum_squares(threads);
      break;
    case OpKind::kCrossEntropyLoss:
      bytes = workspace::cross_entropy_loss(threads);
      break;
    case OpKind::kDispatch:
      bytes = workspace::dispatch_rows(node.attrs.experts.experts);
      break;
    case OpKind::kExpertLinear:
    case OpKind::kExpertLinearDx: {
      const Shape w = shape(node.inputs[1]);
      bytes = workspace::linear(dtype, node.attrs.experts.capacity, w[1], w[2], threads);
      break;
    }
    case OpKind::kExpertLinearDw: {
      const Shape dw = shape(node.outputs[0]);
      bytes = workspace::linear(dtype, node.attrs.experts.capacity, dw[1], dw[2], threads);
      break;
    }
    default:
      break;
  }
  scratch_bytes_ = std::max(scratch_bytes_, bytes);
}

void Lowering::lower_kernel(const Node& node, int64_t micro_batch) {
  reserve_scratch(node);
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  for (const ValueId v : node.inputs) inputs.push_back(operand(v, micro_batch));
  for (const ValueId v : node.outputs) outputs.push_back(operand(v, micro_batch));
  // Gradients of weights and the loss go on from the micro-batch before.
  const bool weight_grad = node.tag.pass == Pass::kWeightGrad && step_.keeps_full_gradients();
  const bool continues =
      node.op == OpKind::kCrossEntropyLoss ? !is_first_of_step() : weight_grad && !is_first();
  if (node.accumulate) {
    const BufferId before = inputs.back();
    inputs.pop_back();
    if (adds_in_kernel(node.op)) {
      inputs.push_back(before);  // the kernel adds it in the same pass
    } else if (before != outputs[0]) {
      emit(OpKind::kCopy, node, micro_batch, {before}, {outputs[0]});
    }
  }
  if (node.op == OpKind::kRope) {
    inputs.push_back(buffer(map_.rope_cos, "rope.cos"));
    inputs.push_back(buffer(map_.rope_sin, "rope.sin"));
  }
  if (node.op == OpKind::kCrossEntropyLoss) inputs.pop_back();  // logits: for its gradient only
  if (node.op == OpKind::kRouterStats) {
    Slot row = map_.router_load;
    row.shape = {node.attrs.experts.experts};
    row.offset += node.attrs.experts.layer * row.bytes();
    outputs.push_back(buffer(row, "router.load"));
  }
  Instruction& instruction =
      emit(node.op, node, micro_batch, std::move(inputs), std::move(outputs));
  instruction.args = args_of(node);
  set_dropout(step_, node, program_.rank, micro_batch, instruction.args);
  instruction.accumulate = (node.accumulate && !adds_in_kernel(node.op)) || continues;
}

void Lowering::lower_node(const Node& node, int64_t micro_batch) {
  if (node.tag.pass == Pass::kUpdate) return;
  if (node.tag.pass == Pass::kReduce && step_.keeps_full_gradients() && !is_last()) return;
  switch (node.op) {
    case OpKind::kInput:
    case OpKind::kParameter:
    case OpKind::kViews:
    case OpKind::kSlice:
    case OpKind::kConcat:
      return;
    case OpKind::kPack:
      lower_pack(node, micro_batch);
      break;
    case OpKind::kCast:
    case OpKind::kShift:
      lower_cast(node, micro_batch);
      break;
    default:
      lower_kernel(node, micro_batch);
  }
  finish_bucket_gradient(node, micro_batch);
}

// Every element counts on its one owner: this rank's shard, on the first replica and, for weights
// that tp does not split, on the first tp rank.
void Lowering::lower_sum_squares(size_t b, const Tag& tag) {
  const Bucket& bucket = step_.layout.buckets[b];
  const int replica = step_.mesh.position(program_.rank, step_.layout.replica_axes_of(bucket));
  const bool split_on_tp = step_.layout.split_axes_of(bucket).contains(Axis::kTp);
  if (replica != 0 || (!split_on_tp && coord(Axis::kTp) != 0)) return;
  scratch_bytes_ = std::max(scratch_bytes_, workspace::sum_squares(program_.threads));
  Node node;
  node.name = bucket.name + ".sum_squares";
  node.tag = tag;
  Instruction& instruction =
      emit(OpKind::kSumSquares, node, -1,
           {buffer(map_.buckets[b].owned_gradient, "d(" + bucket.name + ")")},
           {buffer(map_.metrics, "metrics")});
  instruction.args.bucket = static_cast<int64_t>(b);
}

// Makes version `update` of a bucket. The one before stays where it is as long as somebody reads
// it; without a master copy the new one begins as its copy.
void Lowering::lower_adamw(const Node& node, int update) {
  const auto b = static_cast<size_t>(node.attrs.bucket);
  const BucketSlots& slots = map_.buckets[b];
  const Bucket& bucket = step_.layout.buckets[b];
  const BufferId before = weights_buffer(slots.weights, bucket.name, update - 1);
  const BufferId weights = weights_buffer(slots.weights, bucket.name, update);
  if (before != weights && !slots.master.valid()) {
    emit(OpKind::kCopy, node, -1, {before}, {weights});
  }
  std::vector<BufferId> outputs = {weights, buffer(slots.m, bucket.name + ".m"),
                                   buffer(slots.v, bucket.name + ".v")};
  if (slots.master.valid()) outputs.push_back(buffer(slots.master, bucket.name + ".master"));
  BufferId divisor = buffer(map_.metrics, "metrics");
  if (asynchronous()) {
    Slot tokens = map_.update_tokens;
    tokens.shape = {1};
    tokens.offset += (update - 1) * tokens.bytes();
    divisor = buffer(tokens, "update.tokens");
  }
  Instruction& instruction =
      emit(OpKind::kAdamW, node, -1, {buffer(slots.gradient, "d(" + bucket.name + ")"), divisor},
           std::move(outputs));
  instruction.args.decay = bucket.decay;
  instruction.args.update = update;
  instruction.args.updates = versions_.updates;
  const bool gathers =
      step_.spec.parallel.zero >= 1 && step_.layout.shards_of(bucket) > 1 && slots.full.valid();
  if (!gathers) return;
  Instruction& gather = emit(OpKind::kCast, node, -1, {weights},
                             {weights_buffer(slots.full, bucket.name + ".full", update)});
  gather.collective = CastKind::kAllGather;
  gather.group = step_.mesh.group(step_.layout.shard_axes_of(bucket));
  gather.stream = StreamKind::kComm;
}

// A value goes to, or comes from, the rank of another stage with the same place on all other axes.
void Lowering::lower_message(const PipelineItem& item) {
  const StageCrossing& crossing = step_.pipeline.crossings[static_cast<size_t>(item.crossing)];
  const bool send = item.kind == PipelineItem::Kind::kSend;
  const int stage = send ? crossing.to_stage : crossing.from_stage;
  const BufferId data = operand(crossing.value, item.micro_batch);
  Node node;
  node.name = graph_.value(crossing.value).name;
  node.tag = step_.pipeline.tag_of(graph_, crossing);
  Instruction& instruction = send ? emit(OpKind::kSend, node, item.micro_batch, {data}, {})
                                  : emit(OpKind::kReceive, node, item.micro_batch, {}, {data});
  instruction.stream = StreamKind::kPipe;
  instruction.group = Axis::kPp;
  instruction.peer = step_.stages.schedule.rank_of_stage[static_cast<size_t>(stage)];
}

void Lowering::lower_tie_sum(const Node& node) {
  const auto b = static_cast<size_t>(node.attrs.bucket);
  const BufferId gradient =
      buffer(map_.buckets[b].gradient, "d(" + step_.layout.buckets[b].name + ")");
  Instruction& instruction = emit(OpKind::kTieSum, node, -1, {gradient}, {gradient});
  instruction.collective = CastKind::kAllReduce;
  instruction.group = Axis::kPp;
  instruction.ends_only = true;
  instruction.stream = StreamKind::kComm;
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
  sum.stream = StreamKind::kComm;
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
    if (node.op == OpKind::kAdamW) lower_adamw(node, update_of(item));
  }
}

void Lowering::lower_update() {
  bool started = false;
  for (size_t position = 0; position < order_.nodes.size(); ++position) {
    const Node& node = graph_.nodes()[order_.nodes[position]];
    if (node.tag.pass != Pass::kUpdate) continue;
    position_ = static_cast<int>(position);
    if (!started) emit(OpKind::kZero, node, -1, {}, {buffer(map_.metrics, "metrics")});
    started = true;
    if (node.op == OpKind::kTieSum) {
      lower_tie_sum(node);
    } else if (node.op == OpKind::kSumSquares) {
      lower_sum_squares(static_cast<size_t>(node.attrs.bucket), node.tag);
    } else if (node.op == OpKind::kMetrics) {
      if (program_.loss == kNoBuffer) continue;  // the stage of the loss counts
      Instruction& instruction =
          emit(OpKind::kMetrics, node, -1, {buffer(map_.loss, "loss"), program_.labels},
               {buffer(map_.metrics, "metrics")});
      instruction.args.owner = coord(Axis::kTp) == 0;
      instruction.args.updates = versions_.updates;
    } else if (node.op == OpKind::kCast) {
      lower_cast(node, -1);
    } else if (!asynchronous()) {
      lower_adamw(node, 1);
    }
  }
}

void Lowering::publish_buffers() {
  const auto whole = [&](ValueId value) {
    Slot slot = map_.slots.at(value);
    slot.shape = {program_.micro_batches, slot.shape[0]};
    return buffer(slot, graph_.value(value).name + ".all");
  };
  const int head = step_.layout.num_units - 1;
  if (step_.holds(program_.rank, 0)) program_.tokens = whole(step_.forward.tokens);
  if (map_.rope_cos.valid()) {
    program_.rope_cos = buffer(map_.rope_cos, "rope.cos");
    program_.rope_sin = buffer(map_.rope_sin, "rope.sin");
  }
  if (map_.router_load.valid()) program_.router_load = buffer(map_.router_load, "router.load.all");
  if (step_.training) {
    const bool has_loss = step_.holds(program_.rank, head);
    if (has_loss || asynchronous()) program_.labels = whole(step_.forward.labels);
    if (has_loss) program_.loss = buffer(map_.loss, "loss");
    program_.metrics = buffer(map_.metrics, "metrics");
  }
  for (size_t b = 0; b < map_.buckets.size(); ++b) {
    const BucketSlots& slots = map_.buckets[b];
    const std::string& name = step_.layout.buckets[b].name;
    BucketBuffers buffers;
    if (!slots.weights.valid()) {
      program_.buckets.push_back(buffers);
      continue;
    }
    buffers.weights = buffer(slots.weights, name);
    if (slots.full.valid()) buffers.full = buffer(slots.full, name + ".full");
    if (step_.training) {
      buffers.gradient = buffer(slots.gradient, "d(" + name + ")");
      buffers.m = buffer(slots.m, name + ".m");
      buffers.v = buffer(slots.v, name + ".v");
      if (slots.master.valid()) buffers.master = buffer(slots.master, name + ".master");
    }
    program_.buckets.push_back(buffers);
  }
}

void Lowering::find_part_ends() {
  for (size_t i = 0; i < items_.size(); ++i) {
    const PipelineItem& item = items_[i];
    if (item.kind != PipelineItem::Kind::kPart) continue;
    const auto index = static_cast<int>(i);
    const auto key = std::make_tuple(item.stage, item.part, update_of(item));
    part_ends_.try_emplace(key, index, index).first->second.second = index;
  }
}

// Where the nodes of each item end, in positions.
std::vector<int> Lowering::part_end_positions() const {
  std::vector<int> ends;
  for (const PipelineItem& item : items_) {
    const bool part = item.kind == PipelineItem::Kind::kPart;
    ends.push_back(part ? order_.end.at({item.stage, item.part}) : -1);
  }
  return ends;
}

Program Lowering::run() {
  publish_buffers();
  find_part_ends();
  if (asynchronous()) count_update_tokens();
  for (size_t i = 0; i < items_.size(); ++i) {
    item_ = static_cast<int>(i);
    const PipelineItem& item = items_[i];
    if (item.kind != PipelineItem::Kind::kPart) {
      lower_message(item);
      continue;
    }
    const StageParts& stage = step_.pipeline.stages[static_cast<size_t>(item.stage)];
    for (const size_t node : stage.parts[static_cast<size_t>(item.part)]) {
      position_ = order_.position_of[node];
      lower_node(graph_.nodes()[node], item.micro_batch);
    }
    if (asynchronous()) lower_stage_update();
  }
  item_ = -1;
  if (step_.training) lower_update();
  if (step_.forward.logits != kNoValue) program_.logits = operand(step_.forward.logits, 0);
  const Slot scratch = map_.add_slot("scratch", ArenaKind::kWorkspace, DType::kF64,
                                     {(scratch_bytes_ + 7) / 8}, true);
  program_.scratch = buffer(scratch, "scratch");

  add_events(program_, region_of_, places_, step_.spec.parallel.overlap);
  find_lifetimes(program_, region_of_, places_, part_end_positions(), map_.storages);
  place_storages(map_.storages, instances_.lanes(), program_.arena_bytes);
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const Region& region = region_of_[i];
    const Storage& storage = map_.storages[static_cast<size_t>(region.storage)];
    program_.buffers[i].offset += storage.offset + region.instance * storage.instance_stride;
  }
  program_.live_micro_batches = instances_.lanes();
  check_program(program_);
  if (step_.training) check_versions(program_, versions_);
  return std::move(program_);
}

}  // namespace

Program lower(const StepGraph& step, int rank) { return Lowering(step, rank).run(); }

}  // namespace tessera
