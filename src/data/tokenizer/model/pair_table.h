// Merges by the pair of ids that they join. A flat table: the inner loop of encoding asks it.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

inline constexpr uint32_t kNoRank = UINT32_MAX;

struct Merge {
  uint32_t rank = kNoRank;  // kNoRank: the pair is not merged
  int32_t id = 0;           // what it becomes
};

class PairTable {
 public:
  void reserve(size_t pairs) {
    size_t slots = 16;
    while (slots < 2 * pairs + 2) slots *= 2;
    slots_.assign(slots, Slot());
    shift_ = 64;
    for (size_t i = slots; i > 1; i /= 2) --shift_;
  }
  // At most as many pairs as were reserved. A pair that is there already gets the new merge.
  void insert(int32_t left, int32_t right, Merge merge) {
    Slot& slot = slots_[slot_of(key_of(left, right))];
    slot.key = key_of(left, right);
    slot.merge = merge;
  }
  [[nodiscard]] Merge find(int32_t left, int32_t right) const {
    return slots_[slot_of(key_of(left, right))].merge;
  }

 private:
  struct Slot {
    uint64_t key = UINT64_MAX;  // no pair: ids are not negative
    Merge merge;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  [[nodiscard]] size_t slot_of(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t at = static_cast<size_t>(key * 0x9E3779B97F4A7C15 >> shift_);
    while (slots_[at].key != key && slots_[at].key != UINT64_MAX) at = (at + 1) & mask;
    return at;
  }
  std::vector<Slot> slots_ = std::vector<Slot>(1);  // a power of two, never full
  int shift_ = 63;
};

}  // namespace tessera
