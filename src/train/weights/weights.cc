#include "train/weights/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/hash.h"
#include "base/master_weight.h"
#include "base/philox.h"
#include "tensor/element.h"
#include "train/state/bucket_runs.h"
#include "train/weights/weights_on_disk.h"

namespace tessera {
namespace {

// A buffer that weights are loaded into, and the part of the bucket that it holds.
struct Target {
  Tensor tensor;
  BucketWindow window;
  bool rests = false;  // what bf16 weights lack of the values

  void write(int64_t i, double value) const {
    if (!rests) return write_element(tensor, i, value);
    const auto master = static_cast<float>(value);
    tensor.as<int16_t>()[i] = rest_of_master(master, BFloat16(master).bits);
  }
};

// `normal(i)`: the i-th of the values, with variance 1.
template <typename Normal>
void fill_initial(const ModelSpec& model, Init init, std::span<double> out, const Normal& normal) {
  double scale = model.init_std;
  switch (init) {
    case Init::kOnes:
      return std::fill(out.begin(), out.end(), 1.0);
    case Init::kZeros:
      return std::fill(out.begin(), out.end(), 0.0);
    case Init::kResidual:
      scale /= std::sqrt(2.0 * static_cast<double>(model.layers));
      break;
    case Init::kNormal:
      break;
  }
  for (size_t i = 0; i < out.size(); ++i) out[i] = scale * normal(i);
}

}  // namespace

TensorSource initial_weights(const ModelSpec& model, uint64_t seed) {
  return [=](const LogicalTensor& tensor, int64_t first, std::span<double> out) {
    const uint64_t stream = hash_name(tensor.name);
    fill_initial(model, tensor.init, out, [&](size_t i) {
      return normal_at(seed, stream, static_cast<uint64_t>(first) + i);
    });
  };
}

TensorSource repeated_weights(const ModelSpec& model, uint64_t seed) {
  constexpr uint64_t kPeriod = 65521;
  const auto values = std::make_shared<std::vector<double>>(kPeriod);
  for (uint64_t i = 0; i < kPeriod; ++i) (*values)[i] = normal_at(seed, 0, i);
  return [model, values](const LogicalTensor& tensor, int64_t first, std::span<double> out) {
    const uint64_t start = hash_name(tensor.name) % kPeriod + static_cast<uint64_t>(first);
    fill_initial(model, tensor.init, out,
                 [&](size_t i) { return (*values)[(start + i) % kPeriod]; });
  };
}

TensorSource hf_weights(const std::string& folder, const ParameterLayout& layout) {
  return source_of(open_weights(folder, layout));
}

void load_weights(Executor& executor, const StepGraph& step, const TensorSource& source) {
  const Program& program = executor.program();
  std::vector<double> row;
  for (size_t b = 0; b < step.layout.buckets.size(); ++b) {
    const Bucket& bucket = step.layout.buckets[b];
    if (!step.holds(program.rank, bucket.unit)) continue;
    const int64_t position = split_position(step, bucket, program.rank);
    // A shard may lie within the whole, so both are written even where the whole alone would do.
    std::vector<std::pair<BufferId, HostView>> views;
    std::vector<Target> targets;
    const BucketBuffers& buffers = program.buckets[b];
    for (const BufferId id : {buffers.weights, buffers.full, buffers.master}) {
      if (id == kNoBuffer) continue;
      const Tensor& t = views.emplace_back(id, executor.view(id)).second.tensor;
      std::memset(t.data, 0, static_cast<size_t>(t.bytes()));
      const bool rests = id == buffers.master && t.dtype == DType::kBF16;
      targets.push_back({t, window_of(step, bucket, t.numel(), program.rank), rests});
    }
    const auto fill_row = [&](const LogicalTensor& tensor, int64_t first, int64_t at,
                              int64_t count) {
      row.resize(static_cast<size_t>(count));
      source(tensor, first, row);
      for (const Target& target : targets) {
        const int64_t to = std::min(at + count, target.window.end);
        for (int64_t i = std::max(at, target.window.begin); i < to; ++i) {
          target.write(i - target.window.begin, row[static_cast<size_t>(i - at)]);
        }
      }
    };
    for_each_tensor(bucket, [&](const LogicalTensor& tensor) {
      for_each_row(tensor, position, [&](int64_t first, int64_t at, int64_t count) {
        fill_row(tensor, first, at, count);
      });
    });
    for (const auto& [id, view] : views) executor.write(id, view);
  }
}

std::vector<LogicalValues> gather_state(World& world, StateKind kind) {
  const StepGraph& step = world.step();
  std::vector<LogicalValues> all;
  for (size_t b = 0; b < step.layout.buckets.size(); ++b) {
    const Bucket& bucket = step.layout.buckets[b];
    if (bucket.copy_of >= 0) continue;
    for_each_tensor(bucket, [&](const LogicalTensor& tensor) {
      std::vector<double> values(static_cast<size_t>(numel(tensor.shape)));
      for (int rank = 0; rank < world.size(); ++rank) {
        if (!step.holds(rank, bucket.unit)) continue;
        const BucketBuffers& buffers = world.program(rank).buckets[b];
        const HostView view = world.executor(rank).view(
            kind == StateKind::kWeights ? buffers.weights : buffers.gradient);
        const Tensor& t = view.tensor;
        if (!owns(step, bucket, t.numel(), rank)) continue;
        for_each_run(tensor, split_position(step, bucket, rank),
                     window_of(step, bucket, t.numel(), rank),
                     [&](int64_t first, int64_t at, int64_t count) {
                       for (int64_t i = 0; i < count; ++i) {
                         values[static_cast<size_t>(first + i)] = read_element(t, at + i);
                       }
                     });
      }
      all.push_back({tensor, std::move(values)});
    });
  }
  std::sort(all.begin(), all.end(), [](const LogicalValues& a, const LogicalValues& b) {
    return a.tensor.order < b.tensor.order;
  });
  return all;
}

}  // namespace tessera
