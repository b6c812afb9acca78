#include "comm/shared/layout.h"

#include "base/rounding.h"

namespace tessera::shared {
namespace {

constexpr int64_t kPage = 4096;

}  // namespace

GroupView::Offsets GroupView::offsets_of(int64_t size) {
  Offsets o;
  int64_t at = round_up(sizeof(GroupHead), kPage);
  const auto take = [&](int64_t& offset, int64_t bytes) {
    offset = at;
    at = round_up(at + bytes, kPage);
  };
  take(o.members, size * static_cast<int64_t>(sizeof(Member)));
  take(o.calls, size * kCallSlots * static_cast<int64_t>(sizeof(CallLine)));
  take(o.claims, kCallSlots * static_cast<int64_t>(sizeof(PartClaims)));
  take(o.counts, size * kCallSlots * 2 * size * 8);
  take(o.traffic, size * size * kNumCollectiveOps * 8);
  take(o.pairs, kChannels * size * size * static_cast<int64_t>(sizeof(Pair)));
  take(o.mail, size * kMailSlots * kMailBytes);
  take(o.parts, kChannels * size * size * kPartSlots * kPartBytes);
  o.end = at;
  return o;
}

GroupView::GroupView(std::byte* base, int size)
    : base_(base), size_(size), offsets_(offsets_of(size)) {}

int64_t GroupView::bytes(int size) { return offsets_of(size).end; }

Member& GroupView::member(int rank) const {
  return at<Member>(offsets_.members + rank * static_cast<int64_t>(sizeof(Member)));
}

CallLine& GroupView::call(int rank, uint64_t sequence) const {
  const int64_t index = rank * kCallSlots + static_cast<int64_t>(sequence % kCallSlots);
  return at<CallLine>(offsets_.calls + index * static_cast<int64_t>(sizeof(CallLine)));
}

PartClaims& GroupView::claims(uint64_t sequence) const {
  const auto index = static_cast<int64_t>(sequence % kCallSlots);
  return at<PartClaims>(offsets_.claims + index * static_cast<int64_t>(sizeof(PartClaims)));
}

std::byte* GroupView::mail(int rank, int slot) const {
  return base_ + offsets_.mail + (rank * kMailSlots + slot) * kMailBytes;
}

int64_t* GroupView::counts(int rank, uint64_t sequence) const {
  const int64_t index = rank * kCallSlots + static_cast<int64_t>(sequence % kCallSlots);
  return &at<int64_t>(offsets_.counts + index * 2 * size_ * 8);
}

std::atomic<int64_t>& GroupView::traffic_word(int reader, int from, CollectiveOp op) const {
  const int64_t index = (reader * size_ + from) * kNumCollectiveOps + static_cast<int64_t>(op);
  return at<std::atomic<int64_t>>(offsets_.traffic + index * 8);
}

int64_t GroupView::traffic(int reader, int from, CollectiveOp op) const {
  return traffic_word(reader, from, op).load(std::memory_order_relaxed);
}

// Whoever moves the part of a rank counts for it, while that rank may be in its next call.
void GroupView::count_traffic(int reader, int from, CollectiveOp op, int64_t bytes) const {
  traffic_word(reader, from, op).fetch_add(bytes, std::memory_order_relaxed);
}

Pair& GroupView::pair(int channel, int from, int to) const {
  const int64_t index = (channel * size_ + from) * size_ + to;
  return at<Pair>(offsets_.pairs + index * static_cast<int64_t>(sizeof(Pair)));
}

std::byte* GroupView::part(int channel, int from, int to, int slot) const {
  const int64_t index = ((channel * size_ + from) * size_ + to) * kPartSlots + slot;
  return base_ + offsets_.parts + index * kPartBytes;
}

int64_t control_bytes(int ranks) {
  const int64_t head = round_up(sizeof(WorldBlock), kPage);
  return round_up(head + kMaxGroups * GroupView::bytes(ranks), int64_t{2} << 20);
}

std::byte* group_at(WorldBlock& world, int index) {
  const int64_t head = round_up(sizeof(WorldBlock), kPage);
  return reinterpret_cast<std::byte*>(&world) + head +
         index * GroupView::bytes(static_cast<int>(world.ranks));
}

}  // namespace tessera::shared
