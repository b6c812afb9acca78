// Which rank writes which box of which tensor: from the shardings alone, so that every rank makes
// the same plan and nobody has to ask. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/box/box.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store/manifest.h"
#include "checkpoint/store/store_names.h"

namespace tessera {

// A box of tensors[tensor] that a rank holds, or writes.
struct HeldBox {
  size_t tensor = 0;
  Box box;
  friend auto operator<=>(const HeldBox&, const HeldBox&) = default;
};

struct SavePlan {
  std::vector<TensorHead> tensors;           // sorted by name
  std::vector<std::vector<HeldBox>> writes;  // by rank, in the order of its file

  [[nodiscard]] int64_t world() const { return static_cast<int64_t>(writes.size()); }
};

// `held`: by rank. Ranks that hold the same box are replicas: one of them writes it, such that the
// ranks write about the same number of bytes. Boxes that overlap otherwise, or that leave out an
// element, are our own mistake.
SavePlan plan_save(std::vector<TensorHead> tensors, std::vector<std::vector<HeldBox>> held);

int64_t bytes_written(const SavePlan& plan, int64_t rank);  // without the header

// The file of one rank: what it begins with, and where each of its boxes is, counted from its first
// byte. A function of the plan and the save.
struct ShardLayout {
  std::string head;
  std::vector<int64_t> begins;  // of plan.writes[rank]
  int64_t bytes = 0;            // of the file
};
ShardLayout layout_shard(const SavePlan& plan, const SaveId& id, int64_t step, int64_t rank);

Manifest manifest_of(const SavePlan& plan, const SaveId& id, int64_t step);

}  // namespace tessera
