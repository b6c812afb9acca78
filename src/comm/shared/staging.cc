#include "comm/shared/staging.h"

#include <algorithm>
#include <cstring>

#include "base/rounding.h"
#include "comm/shared/call_shape.h"
#include "comm/shared/endpoint.h"

namespace tessera::shared {

void Staging::make_stage() {
  if (stage_.data() != nullptr) return;
  stage_ = site_.endpoint.allocate(
      fmt::format("rank {} stage of group {}", site_.endpoint.rank(), site_.name), 2 * kStageBytes);
  site_.view().member(site_.rank()).stage = site_.domain.reference(stage_.data());
}

bool Staging::await_peers(Counter Member::*counter, uint32_t target, Blocker* blocker) const {
  for (int peer = 0; peer < site_.size(); ++peer) {
    if (peer == site_.rank()) continue;
    Counter& theirs = site_.view().member(peer).*counter;
    const Blocker wanted{&theirs.value, target, &theirs.sleepers, peer, true};
    if (reached(wanted)) continue;
    if (blocker != nullptr && blocker->word == nullptr) *blocker = wanted;
    return false;
  }
  return true;
}

bool Staging::move(const PendingCall& pending, Blocker* blocker) {
  const int64_t total = assembly_.longest_block(pending);
  const int64_t stride =
      kStageBytes / (size_bytes(pending.call.dtype) * num_blocks(pending.call, site_.size()));
  const int64_t parts = ceil_div(total, stride);
  Member& mine = site_.view().member(site_.rank());
  for (; part_ < parts; ++part_) {
    const int64_t begin = part_ * stride;
    const int64_t end = std::min(total, begin + stride);
    const uint32_t target = parts_ + 1;
    if (!filled_) {
      copy_stage(pending, begin, end, stride, /*in=*/true);
      filled_ = true;
      announce(mine.stage_filled.value, target, mine.stage_filled.sleepers);
    }
    if (!await_peers(&Member::stage_filled, target, blocker)) return false;
    if (!moved_) {
      shared::move(assembly_.range(pending, begin, end, stride), site_.view());
      moved_ = true;
      announce(mine.stage_moved.value, target, mine.stage_moved.sleepers);
    }
    if (!await_peers(&Member::stage_moved, target, blocker)) return false;
    copy_stage(pending, begin, end, stride, /*in=*/false);
    parts_ = target;
    filled_ = moved_ = false;
  }
  part_ = 0;
  return true;
}

// Elements [begin, end) of every block of a foreign buffer of this rank, into or out of its stage.
void Staging::copy_stage(const PendingCall& pending, int64_t begin, int64_t end, int64_t stride,
                         bool in) {
  const CollectiveCall& call = pending.call;
  const int rank = site_.rank();
  const int size = site_.size();
  const uint8_t flags = site_.view().call(rank, pending.sequence).flags;
  if ((flags & (in ? kForeignIn : kForeignOut)) == 0) return;
  const int64_t element = size_bytes(call.dtype);
  const std::span<const int64_t> counts = in ? call.send_counts : call.receive_counts;
  const int64_t bytes = in ? input_bytes(call, rank, size) : output_bytes(call, rank, size);
  const bool uneven = call.op == CollectiveOp::kAllToAllV;
  const auto blocks = uneven ? size : static_cast<int>(bytes / (call.count * element));
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
