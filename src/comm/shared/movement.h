// The data of a collective between buffers that every rank can reach: what one rank copies and
// reduces once all have arrived. No two ranks touch the same bytes unless both read. For rank r of
// n:
//   all_reduce      reduces slice r of all inputs, stores it into all outputs
//   reduce          the same, stores it into the root's output
//   reduce_scatter  reduces block r of all inputs into its own output
//   all_gather      copies every input into its own output
//   all_to_all      copies block r of every input into its own output; when any rank works in
//   place,
//                   one rank of each pair moves both ways
//   broadcast       copies the root's output; scatter: block r of the root's input
//   gather          stores its input into block r of the root's output
#pragma once

#include <span>

#include "comm/communicator.h"
#include "comm/device.h"
#include "comm/shared/layout.h"

namespace tessera::shared {

// One buffer of one rank: where its blocks lie. Element e of block b is `first(b) + e - origin`
// elements after `base`.
struct Side {
  std::byte* base = nullptr;
  int64_t stride = 0;                // between blocks, in elements
  int64_t origin = 0;                // the element of each block that lies at its place
  const int64_t* offsets = nullptr;  // of blocks, instead of the stride
  [[nodiscard]] std::byte* at(int block, int64_t element, int64_t element_bytes) const {
    const int64_t first = offsets != nullptr ? offsets[block] : block * stride;
    return base + (first + element - origin) * element_bytes;
  }
};

struct Movement {
  CollectiveOp op = CollectiveOp::kBarrier;
  ReduceOp reduce = ReduceOp::kSum;
  DType dtype = DType::kF32;
  int root = 0;
  int rank = 0;
  bool one_shot = false;  // inputs are mail: reduce all of it, into this rank's output alone
  bool any_in_place = false;
  DeviceMover* device = nullptr;  // moves it; null: the host does
  // All of it counts as read by whoever gets the result, as if it had gone through mailboxes.
  bool counts_as_mail = false;
  int64_t begin = 0, end = 0;  // the elements of each block that are moved now
  std::span<const Side> in;    // by rank
  std::span<const Side> out;
  // Elements that each rank has for this one, where they differ.
  std::span<const int64_t> lengths = {};
  std::span<const void*> sources;  // scratch, by rank
  std::span<void*> targets;
};

// What a device does is in line when this returns.
void move(const Movement& movement, const GroupView& group);

}  // namespace tessera::shared
