// Graph -> instructions of one rank. Micro-batches repeat the same nodes over the same storages.
#include <algorithm>

#include "base/error.h"
#include "base/workspace.h"
#include "compile/arena_layout.h"
#include "compile/events.h"
#include "compile/passes.h"
#include "compile/step.h"
#include "compile/storage.h"
#include "spec/validate.h"

namespace tessera {
namespace {

class Lowering {
 public:
  Lowering(const StepGraph& step, int rank)
      : step_(step), graph_(step.graph()), map_(assign_storage(step, rank)) {
    program_.rank = rank;
    program_.mesh = step.mesh;
    program_.threads = static_cast<int>(step.spec.train.threads);
    program_.micro_batches = step.training ? accumulation(step.spec) : 1;
  }

  Program run();

 private:
  void lower_node(const Node& node, int64_t micro_batch);
  void lower_cast(const Node& node, int64_t micro_batch);
  void lower_pack(const Node& node, int64_t micro_batch);
  void lower_kernel(const Node& node, int64_t micro_batch);
  void finish_bucket_gradient(const Node& node, int64_t micro_batch);
  void lower_update();
  void lower_sum_squares(size_t bucket, const Tag& tag);
  void lower_adamw(const Node& node);
  KernelArgs args_of(const Node& node) const;
  void reserve_scratch(const Node& node);
  void publish_buffers();

  Instruction& emit(OpKind op, const Node& node, int64_t micro_batch, std::vector<BufferId> inputs,
                    std::vector<BufferId> outputs);
  BufferId buffer(const Slot& slot, const std::string& name, int64_t micro_batch = 0);
  BufferId operand(ValueId value, int64_t micro_batch) {
    return buffer(map_.slots.at(value), graph_.value(value).name, micro_batch);
  }
  [[nodiscard]] int64_t coord(Axis axis) const { return step_.mesh.coord(program_.rank, axis); }
  [[nodiscard]] bool last(int64_t micro_batch) const {
    return micro_batch == program_.micro_batches - 1;
  }

  const StepGraph& step_;
  const Graph& graph_;
  StorageMap map_;
  Program program_;
  std::vector<StorageId> storage_of_;  // per buffer
  std::vector<int> position_of_;       // per instruction: position of its node
  std::map<std::tuple<StorageId, int64_t, DType, Shape>, BufferId> known_;
  int position_ = 0;
  int64_t scratch_bytes_ = 0;
};

BufferId Lowering::buffer(const Slot& slot, const std::string& name, int64_t micro_batch) {
  const int64_t stride = map_.storages[static_cast<size_t>(slot.storage)].micro_batch_stride;
  const int64_t offset = slot.offset + stride * micro_batch;
  const auto key = std::make_tuple(slot.storage, offset, slot.dtype, slot.shape);
  const auto [found, fresh] =
      known_.try_emplace(key, static_cast<BufferId>(program_.buffers.size()));
  if (fresh) {
    const ArenaKind arena = map_.storages[static_cast<size_t>(slot.storage)].arena;
    program_.buffers.push_back({name, slot.dtype, slot.shape, arena, offset});
    storage_of_.push_back(slot.storage);
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
  position_of_.push_back(position_);
  program_.instructions.push_back(std::move(instruction));
  return program_.instructions.back();
}

void Lowering::lower_cast(const Node& node, int64_t micro_batch) {
  const bool weights = node.attrs.bucket >= 0 && node.tag.pass != Pass::kReduce;
  if (weights && !step_.gathers_weights_per_use()) return;
  if (!communicates(graph_, node, step_.mesh)) return;
  const ValueId in = node.inputs[0];
  const ValueId out = node.outputs[0];
  CastKind kind = CastKind::kNothing;
  for (const Axis axis : kAllAxes) {
    if (!node.attrs.axes.contains(axis) || step_.mesh.size(axis) == 1) continue;
    kind = cast_kind(graph_.type(in).on(axis), node.attrs.to);
    const Placement moved = kind == CastKind::kAllGather ? graph_.type(in).on(axis) : node.attrs.to;
    TESSERA_CHECK(moved.kind != Placement::Kind::kSplit || moved.dim == 0,
                  "{} of '{}' along dimension {} is not lowered", collective_name(kind),
                  graph_.value(in).name, moved.dim);
  }
  BufferId source = operand(in, micro_batch);
  const BufferId target = operand(out, micro_batch);
  if (kind == CastKind::kAllReduce && source != target) {
    emit(OpKind::kCopy, node, micro_batch, {source}, {target});
    source = target;
  }
  Instruction& instruction = emit(OpKind::kCast, node, micro_batch, {source}, {target});
  instruction.collective = kind;
  instruction.group = node.attrs.axes;
  instruction.stream = StreamKind::kComm;
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
    emit(OpKind::kZero, node, micro_batch, {}, {buffer(gap, bucket.name + ".gap")});
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
  emit(micro_batch == 0 ? OpKind::kCopy : OpKind::kAccumulate, node, micro_batch, {reduced},
       {kept});
}

KernelArgs Lowering::args_of(const Node& node) const {
  KernelArgs args;
  args.head_dim = node.attrs.head_dim;
  args.seq_len = node.attrs.seq_len;
  args.eps = node.attrs.eps;
  args.inverse = node.attrs.inverse;
  const int64_t tp = step_.mesh.size(Axis::kTp);
  const auto split_on_tp = [&](size_t input) {
    return graph_.type(node.inputs[input]).on(Axis::kTp).kind == Placement::Kind::kSplit;
  };
  switch (node.op) {
    case OpKind::kRope:
      args.heads = node.attrs.heads / (split_on_tp(0) ? tp : 1);
      break;
    case OpKind::kAttention:
    case OpKind::kAttentionGrad: {
      args.heads = node.attrs.heads / (split_on_tp(0) ? tp : 1);
      args.kv_heads = node.attrs.kv_heads / (split_on_tp(1) ? tp : 1);
      args.heads_per_kv = node.attrs.heads / node.attrs.kv_heads;
      if (split_on_tp(0)) args.first_head = coord(Axis::kTp) * args.heads;
      if (split_on_tp(1)) args.first_kv_head = coord(Axis::kTp) * args.kv_heads;
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
      bytes = workspace::attention(dtype, node.attrs.seq_len, node.attrs.head_dim, threads);
      break;
    case OpKind::kAttentionGrad:
      bytes = workspace::attention_grad(dtype, node.attrs.seq_len, node.attrs.head_dim, threads);
      break;
    case OpKind::kSumSquares:
      bytes = workspace::sum_squares(threads);
      break;
    case OpKind::kCrossEntropyLoss:
      bytes = workspace::cross_entropy_loss(threads);
      break;
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
  const bool continues = micro_batch > 0 && (weight_grad || node.op == OpKind::kCrossEntropyLoss);
  if (node.accumulate) {
    const BufferId before = inputs.back();
    inputs.pop_back();
    if (node.op == OpKind::kRmsNormDx) {
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
  Instruction& instruction =
      emit(node.op, node, micro_batch, std::move(inputs), std::move(outputs));
  instruction.args = args_of(node);
  instruction.accumulate = (node.accumulate && node.op != OpKind::kRmsNormDx) || continues;
}

void Lowering::lower_node(const Node& node, int64_t micro_batch) {
  if (node.tag.pass == Pass::kUpdate) return;
  if (node.tag.pass == Pass::kReduce && step_.keeps_full_gradients() && !last(micro_batch)) return;
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
  const Axis replicas = step_.layout.shard_axis == Axis::kFsdp ? Axis::kDp : Axis::kFsdp;
  const Bucket& bucket = step_.layout.buckets[b];
  if (coord(replicas) != 0 || (!bucket.split_on_tp && coord(Axis::kTp) != 0)) return;
  scratch_bytes_ = std::max(scratch_bytes_, workspace::sum_squares(program_.threads));
  Node node;
  node.name = bucket.name + ".sum_squares";
  node.tag = tag;
  emit(OpKind::kSumSquares, node, -1,
       {buffer(map_.buckets[b].owned_gradient, "d(" + bucket.name + ")")},
       {buffer(map_.metrics, "metrics")});
}

void Lowering::lower_adamw(const Node& node) {
  const auto b = static_cast<size_t>(node.attrs.bucket);
  const BucketSlots& slots = map_.buckets[b];
  const Bucket& bucket = step_.layout.buckets[b];
  std::vector<BufferId> outputs = {buffer(slots.weights, bucket.name),
                                   buffer(slots.m, bucket.name + ".m"),
                                   buffer(slots.v, bucket.name + ".v")};
  if (slots.master.valid()) outputs.push_back(buffer(slots.master, bucket.name + ".master"));
  Instruction& instruction =
      emit(OpKind::kAdamW, node, -1,
           {buffer(slots.gradient, "d(" + bucket.name + ")"), buffer(map_.metrics, "metrics")},
           std::move(outputs));
  instruction.args.decay = bucket.decay;
  const bool gathers =
      step_.spec.parallel.zero >= 1 && step_.layout.shards > 1 && slots.full.valid();
  if (!gathers) return;
  Instruction& gather = emit(OpKind::kCast, node, -1, {buffer(slots.weights, bucket.name)},
                             {buffer(slots.full, bucket.name + ".full")});
  gather.collective = CastKind::kAllGather;
  gather.group = step_.layout.shard_axis;
  gather.stream = StreamKind::kComm;
}

void Lowering::lower_update() {
  const std::vector<Node>& nodes = graph_.nodes();
  bool started = false;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    if (node.tag.pass != Pass::kUpdate) continue;
    position_ = static_cast<int>(i);
    if (!started) emit(OpKind::kZero, node, -1, {}, {buffer(map_.metrics, "metrics")});
    started = true;
    if (node.op == OpKind::kSumSquares) {
      lower_sum_squares(static_cast<size_t>(node.attrs.bucket), node.tag);
    } else if (node.op == OpKind::kMetrics) {
      Instruction& instruction =
          emit(OpKind::kMetrics, node, -1, {buffer(map_.loss, "loss"), program_.labels},
               {buffer(map_.metrics, "metrics")});
      instruction.args.owner = coord(Axis::kTp) == 0;
    } else if (node.op == OpKind::kCast) {
      lower_cast(node, -1);
    } else {
      lower_adamw(node);
    }
  }
}

void Lowering::publish_buffers() {
  const auto whole = [&](ValueId value) {
    Slot slot = map_.slots.at(value);
    slot.shape = {program_.micro_batches, slot.shape[0]};
    return buffer(slot, graph_.value(value).name + ".all");
  };
  program_.tokens = whole(step_.forward.tokens);
  program_.rope_cos = buffer(map_.rope_cos, "rope.cos");
  program_.rope_sin = buffer(map_.rope_sin, "rope.sin");
  if (step_.training) {
    program_.labels = whole(step_.forward.labels);
    program_.loss = buffer(map_.loss, "loss");
    program_.metrics = buffer(map_.metrics, "metrics");
  }
  for (size_t b = 0; b < map_.buckets.size(); ++b) {
    const BucketSlots& slots = map_.buckets[b];
    const std::string& name = step_.layout.buckets[b].name;
    BucketBuffers buffers;
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

Program Lowering::run() {
  publish_buffers();
  const std::vector<Node>& nodes = graph_.nodes();
  for (int64_t m = 0; m < program_.micro_batches; ++m) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      position_ = static_cast<int>(i);
      lower_node(nodes[i], m);
    }
  }
  if (step_.training) lower_update();
  if (step_.forward.logits != kNoValue) program_.logits = operand(step_.forward.logits, 0);
  const Slot scratch = map_.add_slot("scratch", ArenaKind::kWorkspace, DType::kF64,
                                     {(scratch_bytes_ + 7) / 8}, true);
  program_.scratch = buffer(scratch, "scratch");

  add_events(program_, storage_of_);
  find_lifetimes(program_, storage_of_, position_of_, map_.storages);
  place_storages(map_.storages, program_.arena_bytes);
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    program_.buffers[i].offset += map_.storages[static_cast<size_t>(storage_of_[i])].offset;
  }
  check_program(program_);
  return std::move(program_);
}

}  // namespace

Program lower(const StepGraph& step, int rank) { return Lowering(step, rank).run(); }

}  // namespace tessera
