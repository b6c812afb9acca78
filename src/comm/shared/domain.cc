#include "comm/shared/domain.h"

#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/hash.h"

namespace tessera::shared {
namespace {

using Clock = std::chrono::steady_clock;

// Whoever claimed the abort writes its reason in microseconds, unless it was killed right there.
bool is_raised_soon(const WorldBlock& world) {
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(50);
  while (!world.abort_flag.raised()) {
    if (Clock::now() > deadline) return false;
    sched_yield();
  }
  return true;
}

void copy_text(char* to, size_t capacity, const std::string& text) {
  const size_t length = std::min(text.size(), capacity - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

// Held for microseconds: one that stays held belongs to a rank that is dead or stopped.
class GroupLock {
 public:
  GroupLock(const Domain& domain, int world_rank) : lock_(domain.block().group_lock) {
    const Clock::time_point deadline = Clock::now() + domain.patience().timeout;
    for (uint32_t holder = 0; !lock_.compare_exchange_weak(
             holder, static_cast<uint32_t>(world_rank) + 1, std::memory_order_acquire);
         holder = 0) {
      if (holder != 0) check(domain, static_cast<int>(holder) - 1, Clock::now() > deadline);
      sched_yield();
    }
  }
  ~GroupLock() { lock_.store(0, std::memory_order_release); }
  GroupLock(const GroupLock&) = delete;
  GroupLock& operator=(const GroupLock&) = delete;

 private:
  static void check(const Domain& domain, int holder, bool too_late) {
    Liveness* const liveness = domain.liveness();
    std::optional<std::string> gone;
    if (liveness != nullptr) gone = liveness->gone(holder);
    if (!gone && too_late) {
      gone = fmt::format("{} has been joining or leaving a group for {:.3f} s",
                         domain.describe(holder),
                         static_cast<double>(domain.patience().timeout.count()) / 1e3);
    }
    if (gone) raise_abort(domain.block(), *gone);
    if (domain.block().abort_flag.raised()) throw CommError(abort_reason(domain.block()));
  }

  std::atomic<uint32_t>& lock_;  // the rank that holds it, and 1
};

int place_of(const std::string& name, std::span<const int> members, int world_rank, int ranks) {
  for (size_t i = 0; i < members.size(); ++i) {
    require(members[i] >= 0 && members[i] < ranks,
            "group {}: member {} is not in the world of 0 to {}", name, members[i], ranks - 1);
    require(std::find(members.begin(), members.begin() + static_cast<int64_t>(i), members[i]) ==
                members.begin() + static_cast<int64_t>(i),
            "group {}: member {} is there twice", name, members[i]);
  }
  const auto self = std::find(members.begin(), members.end(), world_rank);
  require(self != members.end(), "group {}: rank {} joined but is not among the {} members", name,
          world_rank, members.size());
  return static_cast<int>(self - members.begin());
}

uint64_t hash_of(const std::string& key, std::span<const int> members) {
  Hasher hasher;
  hasher.add(std::string_view(key));
  for (const int member : members) hasher.add(member);
  return hasher.value() | 1;  // 0 is a free place
}

// Gives pages back; they read as zero from then on. The first call is for memory of a file, the
// second for memory of this process.
void clear_pages(std::byte* begin, int64_t size_bytes) {
  if (madvise(begin, static_cast<size_t>(size_bytes), MADV_REMOVE) == 0) return;
  if (madvise(begin, static_cast<size_t>(size_bytes), MADV_DONTNEED) == 0) return;
  std::memset(begin, 0, static_cast<size_t>(size_bytes));
}

std::string name_of_group(WorldBlock& world, const RankBlock& rank, int group) {
  if (group < kMaxGroups) return GroupView(group_at(world, group), 1).head().name;
  const int outside = group - kMaxGroups;
  return outside < kOutsideGroups ? rank.outside_groups[outside] : "";
}

}  // namespace

void raise_abort(WorldBlock& world, const std::string& reason) {
  if (world.abort_claimed.exchange(1) != 0 && is_raised_soon(world)) return;
  copy_text(world.abort_text, kAbortBytes, reason);
  world.abort_flag.raise();
}

std::string abort_reason(const WorldBlock& world) {
  return world.abort_flag.raised() ? world.abort_text : "";
}

void note_call(RankBlock& rank, int group, const CollectiveCall& call, uint64_t sequence) {
  const uint64_t made = rank.num_records.fetch_add(1, std::memory_order_release);
  CallRecord& record = rank.records[made % kRecords];
  constexpr auto kRelaxed = std::memory_order_relaxed;
  record.sequence.store(sequence, kRelaxed);
  record.count.store(static_cast<uint64_t>(call.count), kRelaxed);
  record.ticks.store(__rdtsc(), kRelaxed);
  record.kind.store(static_cast<uint64_t>(group) | static_cast<uint64_t>(call.op) << 16 |
                        static_cast<uint64_t>(call.reduce) << 32 |
                        static_cast<uint64_t>(call.dtype) << 48,
                    kRelaxed);
  record.detail.store(static_cast<uint32_t>(call.root) | static_cast<uint64_t>(call.tag) << 32,
                      kRelaxed);
}

std::string last_call(WorldBlock& world, int world_rank) {
  const RankBlock& rank = world.rank[world_rank];
  const uint64_t made = rank.num_records.load(std::memory_order_acquire);
  if (made == 0) return "";
  const CallRecord& record = rank.records[(made - 1) % kRecords];
  const uint64_t kind = record.kind.load(std::memory_order_relaxed);
  const uint64_t detail = record.detail.load(std::memory_order_relaxed);
  const CollectiveCall call{.op = static_cast<CollectiveOp>(kind >> 16 & 0xffff),
                            .reduce = static_cast<ReduceOp>(kind >> 32 & 0xffff),
                            .dtype = static_cast<DType>(kind >> 48),
                            .root = static_cast<int>(static_cast<uint32_t>(detail)),
                            .tag = static_cast<uint32_t>(detail >> 32),
                            .count = static_cast<int64_t>(record.count.load())};
  const std::string text = describe(call, record.sequence.load());
  // A group that all members have left has no name any more.
  const std::string name = name_of_group(world, rank, static_cast<int>(kind & 0xffff));
  return name.empty() ? text : fmt::format("{} of group {}", text, name);
}

void Domain::warn(const std::string& text) const {
  if (options_.on_warning) options_.on_warning(text);
}

bool Domain::reachable(const void* data, int64_t size_bytes) const {
  if (options_.heap.empty() || size_bytes == 0) return true;
  const auto* begin = static_cast<const std::byte*>(data);
  return begin >= options_.heap.data() &&
         begin + size_bytes <= options_.heap.data() + options_.heap.size();
}

uint64_t Domain::reference(const void* data) const {
  return reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(options_.base);
}

std::byte* Domain::address(uint64_t reference) const {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(options_.base) + reference);
}

std::string Domain::describe(int world_rank) const {
  return options_.liveness != nullptr ? options_.liveness->describe(world_rank)
                                      : fmt::format("rank {}", world_rank);
}

Domain::Group Domain::enter_group(const std::string& name, const std::string& key,
                                  std::span<const int> members, int world_rank) const {
  Group group;
  group.rank = place_of(name, members, world_rank, ranks());
  group.world_rank = world_rank;
  const uint64_t hash = hash_of(key, members);
  const int size = static_cast<int>(members.size());
  const GroupLock lock(*this, world_rank);
  int free = -1;
  group.index = -1;
  for (int i = 0; i < kMaxGroups && group.index < 0; ++i) {
    const uint64_t found = block().group_keys[i].load(std::memory_order_relaxed);
    if (found == hash) group.index = i;
    if (found == 0 && free < 0) free = i;
  }
  if (group.index < 0) {
    require(free >= 0, "group {}: the world has {} groups already; give back some first", name,
            kMaxGroups);
    group.index = free;
  }
  group.view = GroupView(group_at(block(), group.index), size);
  Member& member = group.view.member(group.rank);
  require(member.joined.load() == 0, "group {}: rank {} joined before; every member joins once",
          name, world_rank);
  block().group_keys[group.index].store(hash, std::memory_order_relaxed);
  copy_text(group.view.head().name, kNameBytes, name);
  member.joined.store(1);
  return group;
}

void Domain::leave_group(const Group& group) const {
  try {
    const GroupLock lock(*this, group.world_rank);
    GroupHead& head = group.view.head();
    if (static_cast<int>(head.left.fetch_add(1) + 1) < group.view.size()) return;
    // Every page that was used is zeroed again for the next group in this place.
    clear_pages(group_at(block(), group.index), GroupView::bytes(group.view.size()));
    block().group_keys[group.index].store(0, std::memory_order_relaxed);
  } catch (const CommError&) {
    // The world is dead: nobody needs the place.
  }
}

}  // namespace tessera::shared
