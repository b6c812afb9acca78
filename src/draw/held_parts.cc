#include "draw/held_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "compile/model/context.h"

namespace tessera {
namespace {

int64_t ranks_of(const StepGraph& step) { return step.mesh.world(); }

bool is_split(const TensorType& type, Axis axis, int dim) { return type.on(axis) == split(dim); }

// Tokens are dealt to replicas, then in chunks to cp, then in slices to tp.
std::vector<Rect> token_rows(const StepGraph& step, const TensorType& type, int rank) {
  const TrainSpec& train = step.spec.train;
  SequenceRows held{train.seq_len, 1, 0};
  if (is_split(type, Axis::kCp, 0)) held = held_rows(step.spec, step.mesh, rank);
  const int64_t local = train.micro_batch * held.length();
  int64_t first = 0;
  int64_t count = local;
  if (is_split(type, Axis::kTp, 0)) {
    count = local / step.mesh.size(Axis::kTp);
    first = count * step.mesh.coord(rank, Axis::kTp);
  }
  const int64_t replica = step.mesh.position(rank, sample_axes());
  std::vector<Rect> rows;
  for (int64_t s = 0; s < train.micro_batch; ++s) {
    for (int64_t c = 0; c < held.num_chunks(); ++c) {
      const int64_t row = held.first_row(c, s, train.micro_batch);
      const int64_t begin = std::max(row, first);
      const int64_t end = std::min(row + held.chunk_len(), first + count);
      if (begin >= end) continue;
      const int64_t sequence = replica * train.micro_batch + s;
      const int64_t position = held.first_position(c) + begin - row;
      rows.push_back({sequence * train.seq_len + position, end - begin, 0, 0});
    }
  }
  return rows;
}

// Columns go to tp, and what tp has left of them to cp.
Rect columns(const StepGraph& step, const TensorType& type, int rank, int64_t cols) {
  Rect rect{0, 0, 0, cols};
  for (const Axis axis : {Axis::kTp, Axis::kCp}) {
    if (!is_split(type, axis, 1)) continue;
    rect.num_cols /= step.mesh.size(axis);
    rect.first_col += rect.num_cols * step.mesh.coord(rank, axis);
  }
  return rect;
}

// Grows the last rectangle where `next` continues it downwards.
void append(std::vector<Rect>& rects, const Rect& next) {
  if (!rects.empty()) {
    Rect& last = rects.back();
    if (last.first_row + last.num_rows == next.first_row && last.first_col == next.first_col &&
        last.num_cols == next.num_cols) {
      last.num_rows += next.num_rows;
      return;
    }
  }
  rects.push_back(next);
}

const Bucket& bucket_with(const ParameterLayout& layout, const std::string& weight) {
  for (const Bucket& bucket : layout.buckets) {
    for (const Weight& w : bucket.weights) {
      if (w.name == weight) return bucket;
    }
  }
  TESSERA_CHECK(false, "no weight is called {}", weight);
  return layout.buckets.front();
}

// The bucket of the first block that `rank` holds which is what `bucket` is in the first block of
// all: blocks have the same buckets in the same order.
size_t own_bucket(const StepGraph& step, const Bucket& bucket, int rank) {
  const std::vector<Bucket>& buckets = step.layout.buckets;
  const auto first_of = [&](int unit) {
    size_t b = 0;
    while (buckets[b].unit != unit) ++b;
    return b;
  };
  int unit = bucket.unit;
  while (!step.holds(rank, unit)) ++unit;
  const auto place = static_cast<size_t>(&bucket - buckets.data()) - first_of(bucket.unit);
  return first_of(unit) + place;
}

int64_t kept_elements(const StepGraph& step, const Program& program, size_t b, BucketState state) {
  const BucketBuffers& buffers = program.buckets[b];
  const auto elements = [&](BufferId id) { return numel(program.buffer(id).shape); };
  switch (state) {
    case BucketState::kWeights:
      return elements(buffers.full != kNoBuffer ? buffers.full : buffers.weights);
    case BucketState::kGradient:
      return step.keeps_full_gradients() ? step.layout.buckets[b].numel
                                         : elements(buffers.gradient);
    case BucketState::kOptimizer:
      if (buffers.m == kNoBuffer && buffers.master == kNoBuffer) return 0;
      return elements(buffers.m != kNoBuffer ? buffers.m : buffers.master);
  }
  return 0;
}

struct StateWords {
  ArenaKind category;
  const char* label;
};
StateWords words_of(BucketState state) {
  switch (state) {
    case BucketState::kWeights:
      return {ArenaKind::kParameters, "weights, kept"};
    case BucketState::kGradient:
      return {ArenaKind::kGradients, "gradients, kept"};
    case BucketState::kOptimizer:
      return {ArenaKind::kOptimizer, "optimizer states"};
  }
  return {};
}

const Value* find_value(const Graph& graph, std::initializer_list<std::string> names) {
  for (const std::string& name : names) {
    for (const Node& node : graph.nodes()) {
      for (const ValueId id : node.outputs) {
        if (graph.value(id).name == name) return &graph.value(id);
      }
    }
  }
  return nullptr;
}

// Keys and values stand side by side in one value; the values are split as the keys are.
TensorType keys_of(TensorType kv) {
  kv.shape.back() /= 2;
  return kv;
}

HeldTensor held_units(const StepGraph& step) {
  HeldTensor held;
  held.label = "units of the model";
  held.detail = fmt::format("embedding, {}, head", count_of(step.spec.model.layers, "block"));
  held.category = ArenaKind::kParameters;
  held.rows = step.layout.num_units;
  for (int rank = 0; rank < ranks_of(step); ++rank) {
    std::vector<Rect> rects;
    for (int unit = 0; unit < step.layout.num_units; ++unit) {
      if (step.holds(rank, unit)) append(rects, {unit, 1, 0, 1});
    }
    held.by_rank.push_back(std::move(rects));
  }
  return held;
}

}  // namespace

int64_t HeldTensor::elements_of(int rank) const {
  int64_t sum = 0;
  for (const Rect& rect : by_rank[static_cast<size_t>(rank)]) sum += rect.elements();
  return sum;
}

std::string type_text(const TensorType& type, const Mesh& mesh) {
  std::string text = fmt::format("{} {}", name_of(type.dtype), to_string(type.shape));
  for (const Axis axis : kAllAxes) {
    if (mesh.size(axis) == 1 || axis == Axis::kPp) continue;
    text += fmt::format(" {}:{}", name_of(axis), to_string(type.on(axis)));
  }
  return text;
}

HeldTensor held_value(const StepGraph& step, const std::string& label, const TensorType& type) {
  HeldTensor held;
  held.label = label;
  held.detail = type_text(type, step.mesh);
  held.rows = type.shape[0];
  held.cols = type.shape.size() > 1 ? type.shape[1] : 1;
  held.partial = std::any_of(kAllAxes.begin(), kAllAxes.end(), [&](Axis axis) {
    return step.mesh.size(axis) > 1 && type.on(axis) == partial();
  });
  for (int rank = 0; rank < ranks_of(step); ++rank) {
    std::vector<Rect> rects;
    const Rect part = columns(step, type, rank, held.cols);
    for (const Rect& rows : token_rows(step, type, rank)) {
      append(rects, {rows.first_row, rows.num_rows, part.first_col, part.num_cols});
    }
    held.by_rank.push_back(std::move(rects));
  }
  return held;
}

HeldTensor held_weight(const StepGraph& step, const std::string& weight, const std::string& label) {
  const Bucket& bucket = bucket_with(step.layout, weight);
  const Weight& found = *std::find_if(bucket.weights.begin(), bucket.weights.end(),
                                      [&](const Weight& w) { return w.name == weight; });
  HeldTensor held;
  held.label = label;
  held.detail = type_text(found.type, step.mesh);
  held.category = ArenaKind::kParameters;
  held.cols = found.parts.front().cols();
  for (const LogicalTensor& part : found.parts) held.rows += part.rows();
  for (int rank = 0; rank < ranks_of(step); ++rank) {
    const int64_t position = step.mesh.position(rank, step.layout.split_axes_of(bucket));
    std::vector<Rect> rects;
    int64_t row = 0;
    for (const LogicalTensor& part : found.parts) {
      const Piece piece = piece_of(part, position);
      if (piece.num_rows > 0 && piece.num_cols > 0) {
        append(rects, {row + piece.first_row, piece.num_rows, piece.first_col, piece.num_cols});
      }
      row += part.rows();
    }
    held.by_rank.push_back(std::move(rects));
  }
  return held;
}

HeldTensor held_bucket(const StepGraph& step, const std::vector<Program>& programs,
                       const Bucket& bucket, BucketState state) {
  const ParameterLayout& layout = step.layout;
  const AxisSet shard_axes = layout.shard_axes_of(bucket);
  HeldTensor held;
  held.category = words_of(state).category;
  held.label = words_of(state).label;
  held.rows = 1;
  held.cols = bucket.numel * step.mesh.size(layout.split_axes_of(bucket));
  const bool summed_over_ranks =
      step.mesh.size(shard_axes.with(layout.replica_axes_of(bucket))) > 1;
  held.partial =
      state == BucketState::kGradient && step.keeps_full_gradients() && summed_over_ranks;
  int64_t kept = 0;
  for (const Program& program : programs) {
    kept = kept_elements(step, program, own_bucket(step, bucket, program.rank), state);
    int64_t first = bucket.numel * step.mesh.position(program.rank, layout.split_axes_of(bucket));
    if (kept < bucket.numel) first += kept * step.mesh.position(program.rank, shard_axes);
    held.by_rank.push_back({{0, 1, first, kept}});
  }
  std::string name = bucket.name;
  if (step.mesh.size(Axis::kPp) > 1) name.replace(0, name.rfind('.'), "layers.N");
  held.detail = fmt::format("{} bucket {}", kept < bucket.numel ? "a slice of" : "all of", name);
  return held;
}

std::vector<HeldTensor> held_tensors(const StepGraph& step, const std::vector<Program>& programs) {
  const Graph& graph = step.graph();
  const std::string at = "layers.0.";
  std::vector<HeldTensor> all;
  if (step.mesh.size(Axis::kPp) > 1) all.push_back(held_units(step));
  all.push_back(held_value(step, "tokens", graph.type(step.forward.tokens)));
  for (int rank = 0; rank < ranks_of(step); ++rank) {
    if (!step.holds(rank, 0)) all.back().by_rank[static_cast<size_t>(rank)].clear();
  }
  const auto add_value = [&](const std::string& label, const Value* value) {
    if (value != nullptr) all.push_back(held_value(step, label, value->type));
  };
  add_value("residual stream", find_value(graph, {at + "mid"}));
  add_value("queries", find_value(graph, {at + "q.heads", at + "q"}));
  if (const Value* kv = find_value(graph, {at + "kv.all", at + "kv.heads", at + "kv"})) {
    all.push_back(held_value(step, "keys", keys_of(kv->type)));
  }
  add_value("MLP, before its sum", find_value(graph, {at + "down"}));

  const bool moe = step.spec.model.experts > 0;
  const std::string down = at + (moe ? "expert_down" : "down");
  all.push_back(held_weight(step, at + "q", "query weight, in use"));
  all.push_back(held_weight(step, down, moe ? "experts (down), in use" : "down weight, in use"));
  for (const BucketState state :
       {BucketState::kWeights, BucketState::kGradient, BucketState::kOptimizer}) {
    all.push_back(held_bucket(step, programs, bucket_with(step.layout, down), state));
  }
  return all;
}

}  // namespace tessera
