#include "base/hash.h"

#include <fmt/format.h>

#include <bit>

namespace tessera {
namespace {

constexpr uint64_t kPrime = 0x100000001b3;

uint64_t mix_byte(uint64_t state, uint8_t byte) { return (state ^ byte) * kPrime; }

uint64_t mix_text(uint64_t state, std::string_view text) {
  for (const char c : text) state = mix_byte(state, static_cast<uint8_t>(c));
  return state;
}

}  // namespace

void Hasher::add_word(uint64_t word) {
  // Least significant byte first whatever the machine's byte order.
  for (int shift = 0; shift < 64; shift += 8) {
    state_ = mix_byte(state_, static_cast<uint8_t>(word >> shift));
  }
}

void Hasher::add(std::string_view text) {
  add_word(text.size());
  state_ = mix_text(state_, text);
}

void Hasher::add(double value) { add_word(std::bit_cast<uint64_t>(value)); }

uint64_t Hasher::value() const {
  // FNV's high bits depend little on the last bytes; the final mix of MurmurHash3 spreads them.
  uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 33)) * 0xff51afd7ed558ccd;
  mixed = (mixed ^ (mixed >> 33)) * 0xc4ceb9fe1a85ec53;
  return mixed ^ (mixed >> 33);
}

uint64_t hash_name(std::string_view name) { return mix_text(kFnvOffsetBasis, name); }

std::string hex(uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace tessera
