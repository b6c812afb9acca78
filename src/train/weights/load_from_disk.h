// Weights from a disk into the ranks of a forward pass: straight into place where they are stored
// in the type that the rank has, through a bounded staging area where they are not.
#pragma once

#include <cstdint>
#include <functional>

#include "checkpoint/store/box_reader.h"
#include "runtime/executor.h"
#include "train/weights/weights_on_disk.h"

namespace tessera {

struct LoadFigures {
  ReadFigures disk;
  int64_t staging_bytes = 0;  // most memory at a time, beside the weights themselves
};

// Values of another type than the rank's pass through so much.
inline constexpr int64_t kStagingBytes = int64_t{64} << 20;

// Fills this rank's weights; padding becomes zero. The rank has neither master weights nor shards
// of buckets, as those of serving. On a device with memory of its own a bucket at a time is on the
// host too.
LoadFigures load_from_disk(Executor& executor, const StepGraph& step, const WeightsOnDisk& weights);

// How a rank gets its weights.
using WeightsLoader = std::function<LoadFigures(Executor& executor, const StepGraph& step)>;
WeightsLoader loader_of(std::shared_ptr<const WeightsOnDisk> weights);
WeightsLoader loader_of(TensorSource source);

}  // namespace tessera
