#include "compile/lower/storage.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/lane_sums.h"
#include "compile/model/context.h"
#include "compile/passes/passes.h"
#include "graph/op_table.h"
#include "spec/run_file/validate.h"

namespace tessera {

StorageId StorageMap::add(std::string name, ArenaKind arena, int64_t bytes, bool persistent) {
  Storage storage;
  storage.name = std::move(name);
  storage.arena = arena;
  storage.bytes = bytes;
  storage.kind = persistent ? StorageKind::kPersistent : StorageKind::kTransient;
  storages.push_back(std::move(storage));
  return static_cast<StorageId>(storages.size()) - 1;
}

Slot StorageMap::add_slot(const std::string& name, ArenaKind arena, DType dtype, const Shape& shape,
                          bool persistent) {
  Slot slot{-1, 0, dtype, shape};
  slot.storage = add(name, arena, slot.bytes(), persistent);
  return slot;
}

namespace {

class Assigner {
 public:
  Assigner(const StepGraph& step, const RankNodes& order, int rank)
      : step_(step),
        graph_(step.graph()),
        order_(order),
        rank_(rank),
        batch_(batch_of(step, rank)) {}

  StorageMap run();

 private:
  void find_uses();
  void add_inputs();
  void add_serve_inputs();
  Slot add_input(const std::string& name, const Shape& shape, int64_t micro_batches);
  void add_bucket(size_t b);
  Slot add_gradient(const std::string& name, DType dtype, const Shape& shape);
  void add_constants();
  void preassign_packs();
  void add_passing();
  void classify();
  [[nodiscard]] bool holds(int unit) const {
    return step_.stages.rank_of(unit) == step_.mesh.coord(rank_, Axis::kPp);
  }
  void preassign(ValueId value, const Slot& slot);
  void assign(const Node& node, int position);
  void assign_cast(const Node& node, int position);
  void assign_weights(const Node& node);
  void assign_chunks(const Node& node);
  void assign_outputs(const Node& node, int position);
  void stage_all_to_all(const Node& node);
  void assign_new(ValueId value, int position, const std::vector<ValueId>& may_overwrite);
  [[nodiscard]] bool can_overwrite(ValueId value, int position) const;
  void set(ValueId value, const Slot& slot) {
    map_.slots[value] = slot;
    values_in_[slot.storage].emplace(last_use_[static_cast<size_t>(value)], value);
  }
  [[nodiscard]] const Slot& slot(ValueId value) const {
    const auto found = map_.slots.find(value);
    TESSERA_CHECK(found != map_.slots.end(), "'{}' has no storage", graph_.value(value).name);
    return found->second;
  }
  [[nodiscard]] Shape local(ValueId value) const {
    return local_shape(graph_.type(value), step_.mesh);
  }
  // Part `index` of `count` equal parts of a flat slot.
  static Slot part(const Slot& whole, int64_t index, int64_t count) {
    Slot slot = whole;
    slot.shape = {numel(whole.shape) / count};
    slot.offset += index * slot.bytes();
    return slot;
  }

  const StepGraph& step_;
  const Graph& graph_;
  const RankNodes& order_;
  int rank_;
  ReplicaBatch batch_;
  StorageMap map_;
  std::vector<int> last_use_;
  std::vector<size_t> producer_;  // place of the node that makes each value
  // By their last use, the latest first: those of a chain through all layers lie in one storage.
  std::map<StorageId, std::multimap<int, ValueId, std::greater<>>> values_in_;
};

void Assigner::find_uses() {
  last_use_.assign(graph_.num_values(), -1);
  producer_.assign(graph_.num_values(), 0);
  for (size_t position = 0; position < order_.nodes.size(); ++position) {
    const Node& node = graph_.nodes()[order_.nodes[position]];
    for (const ValueId v : node.inputs)
      last_use_[static_cast<size_t>(v)] = static_cast<int>(position);
    for (const ValueId v : node.outputs) producer_[static_cast<size_t>(v)] = order_.nodes[position];
  }
  // Another stage, perhaps of another rank, reads it in its own time.
  for (const StageCrossing& crossing : step_.pipeline.crossings) {
    last_use_[static_cast<size_t>(crossing.value)] = INT_MAX;
  }
}

// What comes from other ranks is written by receives.
void Assigner::add_passing() {
  for (const StageCrossing& crossing : step_.pipeline.crossings) {
    const auto rank_of = [&](int stage) {
      return step_.stages.schedule.rank_of_stage[static_cast<size_t>(stage)];
    };
    const int mine = static_cast<int>(step_.mesh.coord(rank_, Axis::kPp));
    if (rank_of(crossing.to_stage) != mine || rank_of(crossing.from_stage) == mine) continue;
    assign_new(crossing.value, 0, {});
  }
}

// Who uses a storage decides of which kind it is.
void Assigner::classify() {
  std::map<StorageId, std::set<std::pair<int, int>>> users;  // stage, part
  int stage = 0;
  for (const auto& [place, end] : order_.end) {
    const auto& [s, part] = place;
    stage = s;
    for (const size_t i :
         step_.pipeline.stages[static_cast<size_t>(s)].parts[static_cast<size_t>(part)]) {
      const Node& node = graph_.nodes()[i];
      if (node.op == OpKind::kViews || node.op == OpKind::kParameter || node.op == OpKind::kInput ||
          node.op == OpKind::kCache) {
        continue;
      }
      for (const auto* values : {&node.inputs, &node.outputs}) {
        for (const ValueId v : *values) users[slot(v).storage].insert(place);
      }
      for (const ValueId v : node.outputs) {
        if (map_.staging.contains(v)) users[map_.staging.at(v).storage].insert(place);
      }
    }
  }
  std::set<StorageId> passing;
  for (const StageCrossing& crossing : step_.pipeline.crossings) {
    const auto found = map_.slots.find(crossing.value);
    if (found != map_.slots.end()) passing.insert(found->second.storage);
  }
  for (size_t i = 0; i < map_.storages.size(); ++i) {
    Storage& storage = map_.storages[i];
    if (storage.kind == StorageKind::kPersistent) continue;
    const std::set<std::pair<int, int>>& places = users[static_cast<StorageId>(i)];
    storage.stage = places.empty() ? stage : places.begin()->first;
    const bool several_stages = !places.empty() && places.rbegin()->first != storage.stage;
    if (several_stages || passing.contains(static_cast<StorageId>(i))) {
      storage.kind = StorageKind::kPassing;
    } else if (places.size() > 1) {
      storage.kind = StorageKind::kStash;
    }
  }
}

void Assigner::add_inputs() {
  const int64_t micro_batches = step_.training ? accumulation(step_.spec) : 1;
  const int head = step_.layout.num_units - 1;
  for (const auto& [value, unit] :
       {std::pair(step_.forward.tokens, 0), std::pair(step_.forward.labels, head)}) {
    // Every stage of an asynchronous pipeline counts the tokens of its updates.
    const bool counted = value == step_.forward.labels && step_.stages.schedule.asynchronous;
    if (value == kNoValue || (!holds(unit) && !counted)) continue;
    set(value, add_input(graph_.value(value).name, local(value), micro_batches));
  }
  if (step_.serve) add_serve_inputs();
  if (!step_.masks_documents()) return;
  const int64_t rows = attending_rows(step_.spec, step_.mesh, rank_).length();
  map_.document_starts =
      add_input("document.starts", {step_.spec.train.micro_batch * rows}, micro_batches);
}

// What says which tokens a step has, and the pages of the layers of this rank.
void Assigner::add_serve_inputs() {
  const ServeValues& serve = step_.forward.serve;
  const auto mine = static_cast<size_t>(step_.mesh.coord(rank_, Axis::kPp));
  const ServeInputs& in = serve.stages[mine];
  std::vector<ValueId> inputs = {in.positions, in.slots, in.first_row, in.kv_len, in.pages};
  if (holds(step_.layout.num_units - 1)) inputs.push_back(serve.rows);
  for (const ValueId v : inputs) set(v, add_input(graph_.value(v).name, local(v), 1));
  for (size_t layer = 0; layer < serve.caches.size(); ++layer) {
    if (!holds(static_cast<int>(layer) + 1)) continue;
    const ValueId v = serve.caches[layer];
    set(v, map_.add_slot(graph_.value(v).name, ArenaKind::kCache, graph_.type(v).dtype, local(v),
                         /*persistent=*/true));
  }
}

// What every micro-batch has its own part of; the slot is that of the first.
Slot Assigner::add_input(const std::string& name, const Shape& shape, int64_t micro_batches) {
  Slot slot = map_.add_slot(name, ArenaKind::kActivations, DType::kI32,
                            {micro_batches * numel(shape)}, /*persistent=*/true);
  slot.shape = shape;
  map_.storages[static_cast<size_t>(slot.storage)].micro_batch_stride = slot.bytes();
  return slot;
}

void Assigner::add_bucket(size_t b) {
  const Bucket& bucket = step_.layout.buckets[b];
  if (!holds(bucket.unit)) {
    map_.buckets.emplace_back();
    return;
  }
  const RunSpec& spec = step_.spec;
  const DType dtype = spec.train.dtype;
  const DType wide = accumulate_type(dtype);
  const int64_t shards = step_.layout.shards_of(bucket);
  const int64_t coord = step_.mesh.position(rank_, step_.layout.shard_axes_of(bucket));
  const bool sharded = spec.parallel.zero >= 1;
  const Shape whole = {bucket.numel};
  const Shape state = {sharded ? bucket.numel / shards : bucket.numel};

  BucketSlots slots;
  if (step_.shares_weights(rank_, b)) {
    slots = map_.buckets[static_cast<size_t>(bucket.copy_of)];
  } else if (step_.gathers_weights_per_use()) {
    slots.weights = map_.add_slot(bucket.name, ArenaKind::kParameters, dtype, state, true);
  } else {
    slots.full = map_.add_slot(bucket.name, ArenaKind::kParameters, dtype, whole, true);
    slots.weights = sharded ? part(slots.full, coord, shards) : slots.full;
  }
  const auto stage = static_cast<size_t>(step_.stages.stage_of(bucket.unit));
  map_.storages[static_cast<size_t>(slots.weights.storage)].instances =
      step_.stages.versions[stage].slots;
  set(step_.forward.bucket_storage[b], slots.weights);
  if (step_.training) {
    const std::string grad = fmt::format("d({})", bucket.name);
    const DType gradients = spec.train.gradient_type();
    if (step_.keeps_full_gradients()) {
      slots.full_gradient = add_gradient(grad, gradients, whole);
      map_.storages[static_cast<size_t>(slots.full_gradient.storage)].instances = batch_.sums();
      slots.gradient = sharded ? part(slots.full_gradient, coord, shards) : slots.full_gradient;
    } else {
      slots.full_gradient =
          map_.add_slot(grad + ".full", ArenaKind::kCommunication, gradients, whole, false);
      slots.gradient = add_gradient(grad, gradients, state);
    }
    slots.owned_gradient = sharded ? slots.gradient : part(slots.gradient, coord, shards);
  }
  if (step_.training && !step_.shares_weights(rank_, b)) {
    const int64_t states = spec.optimizer.states();
    const auto add_state = [&](const char* name, DType type) {
      return map_.add_slot(bucket.name + name, ArenaKind::kOptimizer, type, state, true);
    };
    if (states > 0) slots.m = add_state(".m", wide);
    if (states > 1) slots.v = add_state(".v", wide);
    if (dtype != wide) {
      // For bf16 weights only the rest that they lack (base/master_weight.h).
      slots.master = add_state(".master", dtype == DType::kBF16 ? dtype : wide);
    }
  }
  map_.buckets.push_back(slots);
}

// Gradients can be read after the step, wherever they lie.
Slot Assigner::add_gradient(const std::string& name, DType dtype, const Shape& shape) {
  if (!step_.gradients_are_activations(rank_)) {
    return map_.add_slot(name, ArenaKind::kGradients, dtype, shape, /*persistent=*/true);
  }
  const Slot slot =
      map_.add_slot(name, ArenaKind::kActivations, dtype, shape, /*persistent=*/false);
  map_.storages[static_cast<size_t>(slot.storage)].last_use = kEndOfStep;
  return slot;
}

void Assigner::add_constants() {
  const DType wide = accumulate_type(step_.spec.train.dtype);
  const Shape table = {held_rows(step_.spec, step_.mesh, rank_).length(),
                       step_.spec.model.head_dim / 2};
  if (step_.spec.model.positions == PositionKind::kRope) {
    map_.rope_cos = map_.add_slot("rope.cos", ArenaKind::kWorkspace, wide, table, true);
    map_.rope_sin = map_.add_slot("rope.sin", ArenaKind::kWorkspace, wide, table, true);
  }
  const ModelSpec& model = step_.spec.model;
  if (model.experts > 0 && !step_.serve) {
    map_.router_load = map_.add_slot("router.load", ArenaKind::kWorkspace, DType::kF64,
                                     {model.layers, model.experts}, true);
  }
  if (!step_.training) return;
  if (holds(step_.layout.num_units - 1)) {
    map_.loss =
        map_.add_slot("loss", ArenaKind::kWorkspace, DType::kF64, {batch_.lanes.count}, true);
  }
  auto sums_of_squares = static_cast<int64_t>(step_.layout.buckets.size());
  if (batch_.has_lanes()) {
    sums_of_squares = 1;
    map_.lane_sums = map_.add_slot("lane.sums", ArenaKind::kWorkspace, DType::kF64,
                                   {LaneSums::count(step_.spec.train.lanes)}, true);
  }
  map_.metrics = map_.add_slot("metrics", ArenaKind::kWorkspace, DType::kF64,
                               {kMetricsHead + sums_of_squares}, true);
  if (!step_.stages.schedule.asynchronous) return;
  map_.update_tokens = map_.add_slot("update.tokens", ArenaKind::kWorkspace, DType::kF64,
                                     {step_.stages.versions.front().updates}, true);
}

// `value` and every value it was accumulated from live in `slot`.
void Assigner::preassign(ValueId value, const Slot& slot) {
  std::vector<ValueId> values;  // the newest first: one for each chunk of the loss, perhaps
  for (bool more = true; more;) {
    values.push_back(value);
    const Node& producer = graph_.nodes()[producer_[static_cast<size_t>(value)]];
    more = producer.accumulate;
    if (more) value = producer.inputs.back();
  }
  for (size_t i = values.size(); i > 0; --i) set(values[i - 1], slot);
}

void Assigner::preassign_packs() {
  for (const size_t i : order_.nodes) {
    const Node& node = graph_.nodes()[i];
    if (node.op == OpKind::kPack) {
      const auto b = static_cast<size_t>(node.attrs.bucket);
      const Bucket& bucket = step_.layout.buckets[b];
      const Slot whole = map_.buckets[b].full_gradient;
      for (size_t w = 0; w < bucket.weights.size(); ++w) {
        Slot slot = whole;
        slot.shape = bucket.weights[w].local_shape;
        slot.offset += bucket.weights[w].offset * size_bytes(whole.dtype);
        preassign(node.inputs[w], slot);
      }
      set(node.outputs[0], whole);
    } else if (node.op == OpKind::kConcat) {
      const ValueId out = node.outputs[0];
      const Slot whole = map_.add_slot(graph_.value(out).name, ArenaKind::kActivations,
                                       graph_.type(out).dtype, local(out), false);
      int64_t at = 0;
      for (const ValueId chunk : node.inputs) {
        Slot slot = whole;
        slot.shape = local(chunk);
        slot.offset = at;
        at += slot.bytes();
        preassign(chunk, slot);
      }
      set(out, whole);
    }
  }
}

bool Assigner::can_overwrite(ValueId value, int position) const {
  const Slot& mine = slot(value);
  const Storage& storage = map_.storages[static_cast<size_t>(mine.storage)];
  if (storage.kind == StorageKind::kPersistent || storage.last_use == kEndOfStep) return false;
  for (const auto& [last_use, other] : values_in_.at(mine.storage)) {
    if (last_use <= position) break;
    const Slot& theirs = slot(other);
    const bool overlap =
        theirs.offset < mine.offset + mine.bytes() && mine.offset < theirs.offset + theirs.bytes();
    if (overlap) return false;
  }
  return true;
}

void Assigner::assign_new(ValueId value, int position, const std::vector<ValueId>& may_overwrite) {
  if (map_.slots.contains(value)) return;
  const TensorType& type = graph_.type(value);
  Slot wanted{-1, 0, type.dtype, local(value)};
  for (const ValueId old : may_overwrite) {
    const Slot& there = slot(old);
    if (there.dtype != wanted.dtype || there.bytes() != wanted.bytes()) continue;
    if (!can_overwrite(old, position)) continue;
    wanted.storage = there.storage;
    wanted.offset = there.offset;
    return set(value, wanted);
  }
  set(value, map_.add_slot(graph_.value(value).name, ArenaKind::kActivations, type.dtype,
                           wanted.shape, false));
}

void Assigner::assign_cast(const Node& node, int position) {
  const ValueId in = node.inputs[0];
  const ValueId out = node.outputs[0];
  const AxisSet axes = node.attrs.axes;
  const int64_t size = step_.mesh.size(axes);
  if (node.attrs.bucket >= 0 && node.tag.pass != Pass::kReduce) {
    const BucketSlots& bucket = map_.buckets[static_cast<size_t>(node.attrs.bucket)];
    if (!step_.gathers_weights_per_use()) return set(out, bucket.full);
    if (!communicates(graph_, node, step_.mesh)) return set(out, slot(in));
    return set(out, map_.add_slot(graph_.value(out).name, ArenaKind::kCommunication,
                                  graph_.type(out).dtype, local(out),
                                  /*persistent=*/!step_.releases_weights()));
  }
  if (size == 1) return set(out, slot(in));
  switch (moving_kind(graph_, node, step_.mesh)) {
    case CastKind::kNothing:
      return set(out, slot(in));
    case CastKind::kSlice: {
      TESSERA_CHECK(node.attrs.to == split(0), "slice along {} is not lowered", node.attrs.to.dim);
      Slot slice = slot(in);
      slice.shape = local(out);
      slice.offset += step_.mesh.position(rank_, axes) * slice.bytes();
      return set(out, slice);
    }
    case CastKind::kAllReduce:
      // The sums of a bucket run in place; an activation only when nobody else reads it.
      if (node.attrs.bucket >= 0) return set(out, slot(in));
      return assign_new(out, position, {in});
    case CastKind::kReduceScatter:
      if (node.attrs.bucket >= 0) {
        return set(out, part(slot(in), step_.mesh.position(rank_, axes), size));
      }
      return assign_new(out, position, {});
    case CastKind::kAllGather:
      return assign_new(out, position, {});
    case CastKind::kAllToAll:
      if (graph_.type(in).shape.size() == 2) stage_all_to_all(node);  // else in blocks already
      return assign_new(out, position, {});
    case CastKind::kShift:
      TESSERA_CHECK(false, "{} is no cast", node.name);
  }
}

// An all-to-all between tokens and columns moves one block [tokens of a rank, columns of a rank]
// for each rank; on the side of the columns they are sorted into, or out of, blocks.
void Assigner::stage_all_to_all(const Node& node) {
  const int64_t ranks = step_.mesh.size(node.attrs.axes);
  const bool to_columns = node.attrs.to == split(1);
  TESSERA_CHECK(to_columns || node.attrs.to == split(0), "all-to-all '{}' is not lowered",
                node.name);
  const ValueId by_columns = to_columns ? node.outputs[0] : node.inputs[0];
  const Shape shape = local(by_columns);  // all tokens, columns of a rank
  map_.staging[node.outputs[0]] =
      map_.add_slot(graph_.value(node.outputs[0]).name + ".blocks", ArenaKind::kCommunication,
                    graph_.type(by_columns).dtype, {ranks, shape[0] / ranks, shape[1]}, false);
}

// The weights of a bucket, where it lays them out.
void Assigner::assign_weights(const Node& node) {
  const Bucket& bucket = step_.layout.buckets[static_cast<size_t>(node.attrs.bucket)];
  const Slot whole = slot(node.inputs[0]);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Slot view = whole;
    view.shape = bucket.weights[i].local_shape;
    view.offset += bucket.weights[i].offset * size_bytes(whole.dtype);
    set(node.outputs[i], view);
  }
}

void Assigner::assign_chunks(const Node& node) {
  Slot chunk = slot(node.inputs[0]);
  for (const ValueId out : node.outputs) {
    chunk.shape = local(out);
    set(out, chunk);
    chunk.offset += chunk.bytes();
  }
}

// Memory of their own, or that of inputs which the row lets them overwrite.
void Assigner::assign_outputs(const Node& node, int position) {
  const std::span<const Overwrite> overwrites = row_of(node.op).storage.overwrites();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    std::vector<ValueId> over;
    if (node.accumulate && i == 0) over.push_back(node.inputs.back());
    for (const Overwrite& overwrite : overwrites) {
      const auto input = static_cast<size_t>(overwrite.input);
      const bool mine = static_cast<size_t>(overwrite.output) == i;
      if (mine && input < node.inputs.size()) over.push_back(node.inputs[input]);
    }
    assign_new(node.outputs[i], position, over);
  }
}

void Assigner::assign(const Node& node, int position) {
  switch (row_of(node.op).storage.place()) {
    case Place::kElsewhere:
      return;
    case Place::kCast:
      if (node.tag.pass == Pass::kUpdate) return set(node.outputs[0], map_.metrics);
      return assign_cast(node, position);
    case Place::kWeights:
      return assign_weights(node);
    case Place::kChunks:
      return assign_chunks(node);
    case Place::kLoss: {
      Slot one = map_.loss;
      one.shape = {1};
      return set(node.outputs[0], one);
    }
    case Place::kMetrics:
      return set(node.outputs[0], map_.metrics);
    case Place::kGradient:
      return set(node.outputs[0], map_.buckets[static_cast<size_t>(node.attrs.bucket)].gradient);
    case Place::kFirstInput:
      return set(node.outputs[0], slot(node.inputs[0]));
    case Place::kNew:
      return assign_outputs(node, position);
  }
}

StorageMap Assigner::run() {
  find_uses();
  if (step_.forward.logits != kNoValue) {
    last_use_[static_cast<size_t>(step_.forward.logits)] = INT_MAX;
  }
  add_inputs();
  for (size_t b = 0; b < step_.layout.buckets.size(); ++b) add_bucket(b);
  add_constants();
  preassign_packs();
  add_passing();
  // In the order of the graph, where a value is made before it is used, whatever the stage.
  const std::vector<Node>& nodes = graph_.nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (order_.position_of[i] >= 0) assign(nodes[i], order_.position_of[i]);
  }
  classify();
  return std::move(map_);
}

}  // namespace

namespace {

// The parts of a stage that compute gradients of weights, and the one in which they are complete.
struct GradientParts {
  std::set<int> writing;
  int complete = -1;
  int64_t lanes_done = 0;
};

GradientParts gradient_parts(const StepGraph& step, int stage) {
  GradientParts result;
  const auto& parts = step.pipeline.stages[static_cast<size_t>(stage)].parts;
  for (size_t part = 0; part < parts.size(); ++part) {
    for (const size_t i : parts[part]) {
      const Node& node = step.graph().nodes()[i];
      if (node.tag.pass == Pass::kWeightGrad) result.writing.insert(static_cast<int>(part));
      if (node.op == OpKind::kPack) result.complete = static_cast<int>(part);
    }
  }
  return result;
}

// As schedules do that put weight gradients off, or run all micro-batches forward first.
bool lanes_overlap(const StepGraph& step, int rank, const ReplicaBatch& batch) {
  std::map<int, GradientParts> by_stage;
  for (const PipelineItem& item : items_of(step, rank, batch)) {
    const int64_t m = item.micro_batch;
    if (item.kind != PipelineItem::Kind::kPart || batch.is_padding(m)) continue;
    const auto [found, fresh] = by_stage.try_emplace(item.stage);
    GradientParts& parts = found->second;
    if (fresh) parts = gradient_parts(step, item.stage);
    if (parts.writing.contains(item.part) && batch.lane_of(m) > parts.lanes_done) return true;
    if (parts.complete == item.part && batch.ends_lane(m)) ++parts.lanes_done;
  }
  return false;
}

}  // namespace

ReplicaBatch batch_of(const StepGraph& step, int rank) {
  if (!step.training) return {};
  ReplicaBatch batch = replica_batch(step.spec, step.mesh.position(rank, sample_axes()));
  if (batch.lanes.count > 2) batch.lanes_overlap = lanes_overlap(step, rank, batch);
  return batch;
}

std::vector<PipelineItem> items_of(const StepGraph& step, int rank, const ReplicaBatch& batch) {
  std::vector<PipelineItem> items =
      step.pipeline.items[static_cast<size_t>(step.mesh.coord(rank, Axis::kPp))];
  if (batch.padding == 0 || step.releases_weights()) return items;
  std::erase_if(items,
                [&](const PipelineItem& item) { return batch.is_padding(item.micro_batch); });
  return items;
}

RankNodes nodes_of(const StepGraph& step, int rank) {
  RankNodes order;
  const auto mine = static_cast<int>(step.mesh.coord(rank, Axis::kPp));
  const std::vector<Node>& nodes = step.graph().nodes();
  order.position_of.assign(nodes.size(), -1);
  const auto add = [&](size_t i) {
    order.position_of[i] = static_cast<int>(order.nodes.size());
    order.nodes.push_back(i);
  };
  for (int s = 0; s < step.stages.stages(); ++s) {
    if (step.stages.schedule.rank_of_stage[static_cast<size_t>(s)] != mine) continue;
    const auto& parts = step.pipeline.stages[static_cast<size_t>(s)].parts;
    for (size_t p = 0; p < parts.size(); ++p) {
      for (const size_t i : parts[p]) add(i);
      order.end[{s, static_cast<int>(p)}] = static_cast<int>(order.nodes.size()) - 1;
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    if (node.tag.pass != Pass::kUpdate) continue;
    const bool all_ranks = node.attrs.bucket < 0;
    if (all_ranks || step.stages.rank_of(node.tag.unit) == mine) add(i);
  }
  return order;
}

StorageMap assign_storage(const StepGraph& step, const RankNodes& order, int rank) {
  return Assigner(step, order, rank).run();
}

}  // namespace tessera
