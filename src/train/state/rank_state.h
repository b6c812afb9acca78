// The state of one rank, out of its memory into a save and back from a checkpoint of any mesh.
#pragma once

#include <functional>
#include <span>

#include "checkpoint/store/box_reader.h"
#include "checkpoint/store/shard_writer.h"
#include "runtime/executor.h"
#include "train/state/state_layout.h"

namespace tessera {

// Gives write_shard() what it asks for, from the buffers of `executor` as they are. One buffer is
// looked at at a time, so that a GPU needs host memory for one alone. Everything that is passed
// must outlive it. Call between steps.
ChunkSource state_source(const Executor& executor, const StateLayout& layout, const SavePlan& plan);

// Fills weights and the states of the optimizer with what `read` puts into the boxes that it is
// given, those of one buffer at a time: a GPU needs host memory for the largest alone. Padding
// becomes zero. Where it throws, what the rank holds is no longer of use.
using BoxReader = std::function<void(std::span<const WantedBox> wanted)>;
void load_state(Executor& executor, const StepGraph& step, const StateLayout& layout,
                const BoxReader& read);

// The same from a checkpoint. Throws Error as read_boxes() does.
ReadFigures load_state(Executor& executor, const StepGraph& step, const StateLayout& layout,
                       const FileOps& files, const CheckpointFolder& checkpoint);

}  // namespace tessera
