#include "compile/lower/lower.h"

#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "compile/lower/arena_layout.h"
#include "compile/lower/events.h"
#include "compile/lower/fuse_norm_gradients.h"
#include "compile/lower/fuse_products.h"
#include "compile/lower/group_buckets.h"
#include "compile/lower/lowering.h"
#include "compile/program/check_program.h"
#include "graph/op_table.h"

namespace tessera {

BufferId Lowering::buffer(const Slot& slot, const std::string& name, int64_t micro_batch) {
  const Storage& storage = map_.storages[static_cast<size_t>(slot.storage)];
  int64_t offset = slot.offset + storage.micro_batch_stride * micro_batch;
  if (slot.storage == map_.loss.storage) offset += lane_ * size_bytes(slot.dtype);
  if (storage.kind == StorageKind::kPersistent && storage.instances > 1) {
    if (storage.arena == ArenaKind::kGradients) return instance_buffer(slot, name, sum_, offset);
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

// Gaps between the weights of a bucket must be zero before they are summed over ranks, and for the
// norm; memory that persists is zero from the start.
void Lowering::lower_pack(const Node& node, int64_t micro_batch) {
  const Bucket& bucket = step_.layout.buckets[static_cast<size_t>(node.attrs.bucket)];
  const Slot whole = map_.slots.at(node.outputs[0]);
  if (map_.storages[static_cast<size_t>(whole.storage)].kind == StorageKind::kPersistent) return;
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

// Tokens that no chunk of the loss takes, in templates, have no gradient.
void Lowering::zero_left_out(const Node& node, int64_t micro_batch) {
  if (node.attrs.rows == 0) return;
  Slot rest = map_.slots.at(node.outputs[0]);
  for (const ValueId chunk : node.inputs) {
    const Slot& taken = map_.slots.at(chunk);
    rest.offset += taken.bytes();
    rest.shape[0] -= taken.shape[0];
  }
  emit(OpKind::kZero, node, micro_batch, {}, {buffer(rest, node.name + ".rest", micro_batch)});
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

void Lowering::lower_node(const Node& node, int64_t micro_batch) {
  if (node.tag.pass == Pass::kUpdate) return;
  if (node.op == OpKind::kPack) join_lanes(node, micro_batch);
  if (node.tag.pass == Pass::kReduce && step_.keeps_full_gradients() && !is_last()) return;
  lane_ = batch_.lane_of(micro_batch);
  sum_ = node.tag.pass == Pass::kReduce ? 0 : batch_.sum_of(lane_);
  lower_in_place(node, micro_batch);
  lane_ = 0;
  sum_ = 0;
}

void Lowering::lower_in_place(const Node& node, int64_t micro_batch) {
  switch (row_of(node.op).kernel.lowered) {
    case Lowered::kNothing:
      if (node.op == OpKind::kConcat) zero_left_out(node, micro_batch);
      return;
    case Lowered::kPack:
      lower_pack(node, micro_batch);
      break;
    case Lowered::kCast:
      lower_cast(node, micro_batch);
      break;
    case Lowered::kKernel:
      lower_kernel(node, micro_batch);
      break;
    case Lowered::kUpdate:
    case Lowered::kNotInGraph:
      TESSERA_CHECK(false, "{} '{}' does not belong to a micro-batch", name_of(node.op), node.name);
  }
  finish_bucket_gradient(node, micro_batch);
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
  if (map_.document_starts.valid()) {
    Slot slot = map_.document_starts;
    slot.shape = {program_.micro_batches, slot.shape[0]};
    program_.document_starts = buffer(slot, "document.starts.all");
  }
  if (map_.router_load.valid()) program_.router_load = buffer(map_.router_load, "router.load.all");
  if (step_.training) {
    const bool has_loss = step_.holds(program_.rank, head);
    if (has_loss || asynchronous()) program_.labels = whole(step_.forward.labels);
    if (has_loss) program_.loss = buffer(map_.loss, "loss");
    program_.metrics = buffer(map_.metrics, "metrics");
  }
  if (step_.serve) publish_serve_buffers();
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
      if (slots.m.valid()) buffers.m = buffer(slots.m, name + ".m");
      if (slots.v.valid()) buffers.v = buffer(slots.v, name + ".v");
      if (slots.master.valid()) buffers.master = buffer(slots.master, name + ".master");
    }
    program_.buckets.push_back(buffers);
  }
}

void Lowering::publish_serve_buffers() {
  const ServeValues& serve = step_.forward.serve;
  const ServeInputs& in = serve.stages[static_cast<size_t>(coord(Axis::kPp))];
  ServeBuffers& to = program_.serve;
  to.positions = operand(in.positions, 0);
  to.slots = operand(in.slots, 0);
  to.first_row = operand(in.first_row, 0);
  to.kv_len = operand(in.kv_len, 0);
  to.pages = operand(in.pages, 0);
  if (step_.holds(program_.rank, step_.layout.num_units - 1)) to.rows = operand(serve.rows, 0);
  for (size_t layer = 0; layer < serve.caches.size(); ++layer) {
    const bool mine = step_.holds(program_.rank, static_cast<int>(layer) + 1);
    to.caches.push_back(mine ? operand(serve.caches[layer], 0) : kNoBuffer);
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

// The gradient of a bucket is complete for a micro-batch. Where that ends a lane, sums of as many
// lanes become one.
void Lowering::join_lanes(const Node& node, int64_t micro_batch) {
  if (batch_.sums() == 1 || !batch_.ends_lane(micro_batch)) return;
  const auto b = static_cast<size_t>(node.attrs.bucket);
  const Slot& gradient = map_.buckets[b].full_gradient;
  const auto part = [&](int sum) {
    return instance_buffer(gradient, "d(" + step_.layout.buckets[b].name + ")", sum,
                           gradient.offset);
  };
  // The group that ends here joins the one before it, as long as both have the same size.
  const int64_t last = batch_.lane_of(micro_batch);
  for (int64_t size = 1; last & size; size *= 2) {
    const int64_t right = last + 1 - size;
    emit(OpKind::kAccumulate, node, micro_batch, {part(batch_.sum_of(right))},
         {part(batch_.sum_of(right - size))});
  }
}

// Whether a kernel adds to what the micro-batch before has left.
bool Lowering::continues_sum(const Node& node, int64_t micro_batch) const {
  const bool loss = node.op == OpKind::kCrossEntropyLoss;
  const bool weight_grad = node.tag.pass == Pass::kWeightGrad && step_.keeps_full_gradients();
  if (!loss && !weight_grad) return false;
  if (batch_.has_lanes()) return !batch_.begins_lane(micro_batch);
  return loss ? !is_first_of_step() : !is_first();
}

void Lowering::require_lanes_in_order() const {
  if (!batch_.has_lanes()) return;
  std::map<std::pair<int, int>, int> newest;  // micro-batch by stage and part
  for (const PipelineItem& item : items_) {
    if (item.kind != PipelineItem::Kind::kPart) continue;
    const auto [before, fresh] = newest.try_emplace({item.stage, item.part}, item.micro_batch);
    require_config(
        fresh || before->second < item.micro_batch,
        "train.lanes = {}: with schedule = \"{}\" a stage takes micro-batch {} before {}, "
        "but lanes are added up in order; use schedule = \"1f1b\", or lanes = 0",
        step_.spec.train.lanes, step_.spec.parallel.schedule.text(), before->second,
        item.micro_batch);
    before->second = item.micro_batch;
  }
}

Program Lowering::run() {
  require_lanes_in_order();
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
  const bool last = step_.holds(program_.rank, step_.layout.num_units - 1);
  if (step_.forward.logits != kNoValue && last) {
    program_.logits = operand(step_.forward.logits, 0);
  }

  fuse_products(program_, region_of_, places_);
  if (on_gpu()) fuse_norm_gradients(program_, region_of_, places_);
  group_buckets(program_, places_);
  const int64_t scratch_bytes = std::max(scratch_bytes_, instruction_scratch(program_, on_gpu()));
  const Slot scratch = map_.add_slot("scratch", ArenaKind::kWorkspace, DType::kF64,
                                     {ceil_div(scratch_bytes, 8)}, true);
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

Program lower(const StepGraph& step, int rank) { return Lowering(step, rank).run(); }

}  // namespace tessera
