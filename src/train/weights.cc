#include "train/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "checkpoint/safetensors.h"
#include "tensor/element.h"

namespace tessera {
namespace {

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Where a buffer lies in the bucket of its tp rank: all of it, or one shard.
int64_t first_element(const Tensor& t, const Bucket& bucket, int64_t shard) {
  return t.numel() == bucket.numel ? 0 : shard * t.numel();
}

// Calls f(tensor, first element of the tensor, first element of the bucket, count) for every row of
// every logical tensor that this tp rank holds in the bucket.
template <typename F>
void for_each_row(const Bucket& bucket, int64_t tp_coord, const F& f) {
  for (const Weight& weight : bucket.weights) {
    for (const LogicalTensor& tensor : weight.parts) {
      const Piece piece = piece_of(tensor, tp_coord);
      for (int64_t r = 0; r < piece.num_rows; ++r) {
        f(tensor, (piece.first_row + r) * tensor.cols() + piece.first_col,
          piece.bucket_offset + r * piece.bucket_stride, piece.num_cols);
      }
    }
  }
}

}  // namespace

TensorSource initial_weights(const ModelSpec& model, uint64_t seed) {
  return [=](const LogicalTensor& tensor, int64_t first, std::span<double> out) {
    if (tensor.shape.size() == 1) {
      std::fill(out.begin(), out.end(), 1.0);
      return;
    }
    const bool into_residual =
        ends_with(tensor.name, "o_proj.weight") || ends_with(tensor.name, "down_proj.weight");
    const double scale =
        model.init_std / (into_residual ? std::sqrt(2.0 * static_cast<double>(model.layers)) : 1.0);
    const uint64_t stream = hash_name(tensor.name);
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = scale * normal_at(seed, stream, static_cast<uint64_t>(first) + i);
    }
  };
}

std::vector<std::string> logical_names(const ParameterLayout& layout) {
  std::vector<std::string> names;
  for (const Bucket& bucket : layout.buckets) {
    for (const Weight& weight : bucket.weights) {
      for (const LogicalTensor& tensor : weight.parts) names.push_back(tensor.name);
    }
  }
  return names;
}

TensorSource hf_weights(const std::string& folder, const ParameterLayout& layout) {
  const auto weights = std::make_shared<HfWeights>(HfWeights::open(folder));
  require_exact_names(*weights, logical_names(layout));
  return [weights](const LogicalTensor& tensor, int64_t first, std::span<double> out) {
    weights->read_range(tensor.name, tensor.shape, first, out);
  };
}

void load_weights(Executor& executor, const StepGraph& step, const TensorSource& source) {
  const Program& program = executor.program();
  const int64_t tp_coord = program.mesh.coord(program.rank, Axis::kTp);
  const int64_t shard = program.mesh.coord(program.rank, step.layout.shard_axis);
  std::vector<double> row;
  for (size_t b = 0; b < step.layout.buckets.size(); ++b) {
    const Bucket& bucket = step.layout.buckets[b];
    std::vector<Tensor> targets;
    const BucketBuffers& buffers = program.buckets[b];
    for (const BufferId id : {buffers.weights, buffers.full, buffers.master}) {
      if (id == kNoBuffer) continue;
      targets.push_back(executor.tensor(id));
      std::memset(targets.back().data, 0, static_cast<size_t>(targets.back().bytes()));
    }
    for_each_row(bucket, tp_coord,
                 [&](const LogicalTensor& tensor, int64_t first, int64_t at, int64_t count) {
                   row.resize(static_cast<size_t>(count));
                   source(tensor, first, row);
                   for (const Tensor& t : targets) {
                     const int64_t begin = first_element(t, bucket, shard);
                     const int64_t to = std::min(at + count, begin + t.numel());
                     for (int64_t i = std::max(at, begin); i < to; ++i) {
                       write_element(t, i - begin, row[static_cast<size_t>(i - at)]);
                     }
                   }
                 });
  }
}

std::vector<LogicalValues> gather_state(World& world, StateKind kind) {
  const StepGraph& step = world.step();
  const Mesh& mesh = step.mesh;
  const Axis replicas = step.layout.shard_axis == Axis::kFsdp ? Axis::kDp : Axis::kFsdp;
  std::map<std::string, LogicalValues> found;
  for (size_t b = 0; b < step.layout.buckets.size(); ++b) {
    const Bucket& bucket = step.layout.buckets[b];
    for (int rank = 0; rank < world.size(); ++rank) {
      const BucketBuffers& buffers = world.program(rank).buckets[b];
      const Tensor t = world.executor(rank).tensor(kind == StateKind::kWeights ? buffers.weights
                                                                               : buffers.gradient);
      const int64_t shard = mesh.coord(rank, step.layout.shard_axis);
      const bool copy = t.numel() == bucket.numel && shard != 0;
      if (copy || mesh.coord(rank, replicas) != 0) continue;
      const int64_t begin = first_element(t, bucket, shard);
      for_each_row(
          bucket, mesh.coord(rank, Axis::kTp),
          [&](const LogicalTensor& tensor, int64_t first, int64_t at, int64_t count) {
            LogicalValues& values = found[tensor.name];
            if (values.values.empty()) {
              values = {tensor, std::vector<double>(static_cast<size_t>(numel(tensor.shape)))};
            }
            const int64_t to = std::min(at + count, begin + t.numel());
            for (int64_t i = std::max(at, begin); i < to; ++i) {
              values.values[static_cast<size_t>(first + i - at)] = read_element(t, i - begin);
            }
          });
    }
  }
  std::vector<LogicalValues> all;
  for (auto& [name, values] : found) all.push_back(std::move(values));
  std::sort(all.begin(), all.end(), [](const LogicalValues& a, const LogicalValues& b) {
    return a.tensor.order < b.tensor.order;
  });
  return all;
}

void save_weights(const std::string& path, World& world) {
  const DType dtype = world.step().spec.train.dtype;
  const std::vector<LogicalValues> state = gather_state(world, StateKind::kWeights);
  std::vector<std::vector<std::byte>> bytes;
  std::vector<TensorToWrite> tensors;
  for (const LogicalValues& values : state) {
    bytes.emplace_back(values.values.size() * static_cast<size_t>(size_bytes(dtype)));
    const Tensor t(bytes.back().data(), dtype, {static_cast<int64_t>(values.values.size())});
    for (size_t i = 0; i < values.values.size(); ++i) {
      write_element(t, static_cast<int64_t>(i), values.values[i]);
    }
    tensors.push_back({values.tensor.name, stored_type(dtype), values.tensor.shape, bytes.back()});
  }
  write_safetensors(path, tensors, {{"format", "pt"}});
}

}  // namespace tessera
