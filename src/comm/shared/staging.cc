// Calls in which a buffer of some rank lies outside the shared memory. They move part by part:
// every rank copies the next part of a foreign input into its stage, all wait for all, move between
// stages and reachable buffers, wait again, and copy results out.
#include <algorithm>
#include <cstring>

#include "comm/shared/call_shape.h"
#include "comm/shared/endpoint.h"
#include "comm/shared/shared_communicator.h"

namespace tessera::shared {

void SharedCommunicator::make_stage() {
  if (stage_.data() != nullptr) return;
  stage_ = endpoint_.allocate(fmt::format("rank {} stage of group {}", endpoint_.rank(), name_),
                              2 * kStageBytes);
  group_.view.member(rank()).stage = domain_.reference(stage_.data());
}

int64_t SharedCommunicator::longest_block(const Op& op) const {
  if (op.call.op != CollectiveOp::kAllToAllV) return op.call.count;
  int64_t longest = 0;
  for (int peer = 0; peer < size(); ++peer) {
    const int64_t* sent = group_.view.counts(peer, op.sequence);
    longest = std::max(longest, *std::max_element(sent, sent + size()));
  }
  return longest;
}

bool SharedCommunicator::await_stage(Counter Member::*counter, uint32_t target, Blocker* blocker) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    Counter& theirs = group_.view.member(peer).*counter;
    const Blocker wanted{&theirs.value, target, &theirs.sleepers, peer, true};
    if (reached(wanted)) continue;
    if (blocker != nullptr && blocker->word == nullptr) *blocker = wanted;
    return false;
  }
  return true;
}

bool SharedCommunicator::move_staged(Op& op, Blocker* blocker) {
  const int64_t total = longest_block(op);
  const int64_t stride = kStageBytes / (size_bytes(op.call.dtype) * num_blocks(op.call, size()));
  const int64_t parts = (total + stride - 1) / stride;
  Member& mine = group_.view.member(rank());
  for (; op.part < parts; ++op.part) {
    const int64_t begin = op.part * stride;
    const int64_t end = std::min(total, begin + stride);
    const uint32_t target = stage_parts_ + 1;
    if (!op.part_filled) {
      copy_stage(op, begin, end, stride, /*in=*/true);
      op.part_filled = true;
      announce(mine.stage_filled.value, target, mine.stage_filled.sleepers);
    }
    if (!await_stage(&Member::stage_filled, target, blocker)) return false;
    if (!op.part_moved) {
      move_range(op, begin, end, stride);
      op.part_moved = true;
      announce(mine.stage_moved.value, target, mine.stage_moved.sleepers);
    }
    if (!await_stage(&Member::stage_moved, target, blocker)) return false;
    copy_stage(op, begin, end, stride, /*in=*/false);
    stage_parts_ = target;
    op.part_filled = op.part_moved = false;
  }
  return true;
}

// Elements [begin, end) of every block of a foreign buffer of this rank, into or out of its stage.
void SharedCommunicator::copy_stage(const Op& op, int64_t begin, int64_t end, int64_t stride,
                                    bool in) {
  const CollectiveCall& call = op.call;
  const uint8_t flags = group_.view.call(rank(), op.sequence).flags;
  if ((flags & (in ? kForeignIn : kForeignOut)) == 0) return;
  const int64_t element = size_bytes(call.dtype);
  const std::span<const int64_t> counts = in ? call.send_counts : call.receive_counts;
  const int64_t bytes = in ? input_bytes(call, rank(), size()) : output_bytes(call, rank(), size());
  const bool uneven = call.op == CollectiveOp::kAllToAllV;
  const auto blocks = uneven ? size() : static_cast<int>(bytes / (call.count * element));
  std::byte* stage = stage_.data() + (in ? 0 : kStageBytes);
  int64_t first = 0;  // element of the buffer at which the block begins
  for (int block = 0; block < blocks; ++block) {
    const int64_t length = uneven ? counts[static_cast<size_t>(block)] : call.count;
    const int64_t copied = std::min(end, length) - begin;
    if (copied > 0) {
      std::byte* staged = stage + block * stride * element;
      const int64_t at = (first + begin) * element;
      const auto size_copied = static_cast<size_t>(copied * element);
      if (in) {
        std::memcpy(staged, static_cast<const std::byte*>(call.in) + at, size_copied);
      } else {
        std::memcpy(static_cast<std::byte*>(call.out) + at, staged, size_copied);
      }
    }
    first += length;
  }
}

}  // namespace tessera::shared
