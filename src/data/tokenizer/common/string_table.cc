#include "data/tokenizer/common/string_table.h"

#include <cstring>

#include "base/error.h"

namespace tessera {
namespace {

constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;

uint64_t mix(uint64_t word) {
  word *= kOdd;
  return word ^ word >> 32;
}

}  // namespace

uint64_t hash_bytes(std::string_view bytes) {
  uint64_t hash = bytes.size() * kOdd;
  while (bytes.size() >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    hash = mix(hash ^ word);
    bytes.remove_prefix(8);
  }
  uint64_t word = 0;
  std::memcpy(&word, bytes.data(), bytes.size());
  return mix(mix(hash ^ word));
}

void StringTable::reserve(size_t strings, size_t bytes) {
  entries_.reserve(strings);
  arena_.reserve(bytes);
  grow(strings);
}

size_t StringTable::slot_of(std::string_view text) const {
  const uint64_t hash = hash_bytes(text);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].value != kNoToken &&
         (slots_[at].tag != tag || text_of(entries_[slots_[at].entry]) != text)) {
    at = (at + 1) & mask;
  }
  return at;
}

void StringTable::grow(size_t strings) {
  size_t slots = 16;
  while (slots < 2 * strings + 2) slots *= 2;
  if (slots <= slots_.size()) return;
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(slots, Slot());
  for (const Slot& slot : old) {
    if (slot.value == kNoToken) continue;
    slots_[slot_of(text_of(entries_[slot.entry]))] = slot;
  }
}

void StringTable::insert(std::string_view text, int32_t value) {
  TESSERA_CHECK(value >= 0, "value {} of {} bytes", value, text.size());
  grow(size_ + 1);
  Slot& slot = slots_[slot_of(text)];
  if (slot.value == kNoToken) {
    require(arena_.size() + text.size() < UINT32_MAX, "tokens of more than 4 GiB");
    slot.tag = static_cast<uint32_t>(hash_bytes(text) >> 32);
    slot.entry = static_cast<uint32_t>(entries_.size());
    entries_.push_back({static_cast<uint32_t>(arena_.size()), static_cast<uint32_t>(text.size())});
    arena_.append(text);
    ++size_;
  }
  slot.value = value;
}

}  // namespace tessera
