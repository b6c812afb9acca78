// Boxes of tensors out of a checkpoint, however it was cut when it was saved: the one way in which
// weights and states of the optimizer come onto any mesh.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/box/runs.h"
#include "checkpoint/store/checkpoint_folder.h"
#include "checkpoint/store/file_ops.h"

namespace tessera {

// A box of a tensor that is wanted, and where it goes. `place` counts in elements of `type`.
struct WantedBox {
  std::string tensor;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;  // of the whole tensor
  Placed place;
  std::byte* memory = nullptr;
};

struct ReadFigures {
  int64_t needed_bytes = 0;  // of the boxes
  int64_t read_bytes = 0;    // from the disk, in whole blocks
  int64_t spans = 0;         // stretches of files: runs closer than kNearBytes are one
  int64_t gap_bytes = 0;     // between the runs of a stretch

  void add(const ReadFigures& more) {
    needed_bytes += more.needed_bytes;
    read_bytes += more.read_bytes;
    spans += more.spans;
    gap_bytes += more.gap_bytes;
  }
};

inline constexpr int64_t kNearBytes = int64_t{256} << 10;

// Fills all of them. Of every shard only the blocks that are needed are read, each once and in
// order, and every one is checked before an element of it is used; extra memory: the blocks of one
// BlockReader. Throws Error: ExitCode::kUsage where the checkpoint has no such tensor, or one of
// another shape or type, with both; else as checkpoint_folder.h says.
ReadFigures read_boxes(const FileOps& files, const CheckpointFolder& checkpoint,
                       std::span<const WantedBox> wanted);

}  // namespace tessera
