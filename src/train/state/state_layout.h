// What a run keeps from step to step, as boxes of named tensors: which there are, and which part of
// each every rank holds where. The joint between a Program's buckets, which are flat, padded and
// cut by tp, ep, pp and ZeRO, and checkpoints, which know tensors alone. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/box/runs.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store/save_plan.h"
#include "compile/step.h"

namespace tessera {

// The buffers of a bucket that are kept.
enum class StatePart : uint8_t {
  kWeights,  // "NAME"
  kM,        // "optim.m.NAME", of SGD "optim.momentum.NAME"
  kV,        // "optim.v.NAME"
  kMaster,   // "optim.master.NAME"; of bf16 weights "optim.rest.NAME": base/master_weight.h
};
BufferId buffer_of(const BucketBuffers& buffers, StatePart part);

// A box of tensors[tensor], and where it lies in a buffer, in elements.
struct StateBox {
  size_t tensor = 0;
  size_t bucket = 0;
  StatePart part = StatePart::kWeights;
  Placed place;
};

struct StateLayout {
  std::vector<TensorHead> tensors;           // each once, in the order of the model, by part
  std::vector<std::vector<StateBox>> ranks;  // by rank; replicas hold equal boxes
};

// The layout of a training step. Padding belongs to no tensor; a tied weight that two stages hold
// is one tensor with replicas.
StateLayout lay_out_state(const StepGraph& step);

// Where the boxes of `rank` lie when it holds all of its buckets, as it does of weights between
// ZeRO-1 and ZeRO-2; of weights only.
std::vector<StateBox> whole_weights(const StepGraph& step, const StateLayout& layout, int rank);

// What every rank holds, wherever it lies.
std::vector<std::vector<HeldBox>> held_boxes(const StateLayout& layout);
SavePlan plan_save(const StateLayout& layout);

}  // namespace tessera
