#include "data/testing/odd_strings.h"

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/tokenizer/unicode/unicode.h"

namespace tessera::testing {
namespace {

class Random {
 public:
  explicit Random(uint32_t number) : state_((number + 1) * 0x9E3779B9U) {}
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(uint64_t{next()} * n >> 32); }
  const std::string& of(const std::vector<std::string>& list) {
    return list[below(static_cast<uint32_t>(list.size()))];
  }

 private:
  uint32_t next() {
    state_ += 0x6D2B79F5U;
    uint32_t t = (state_ ^ state_ >> 15) * (state_ | 1);
    t ^= t + (t ^ t >> 7) * (t | 61);
    return t ^ t >> 14;
  }
  uint32_t state_;
};

void add_character(Random& random, std::string& text) {
  const uint32_t kind = random.below(20);
  if (kind < 8) {
    text += static_cast<char>(32 + random.below(95));
    return;
  }
  const uint32_t limit = kind < 12 ? 0x250 : kind < 17 ? 0x10000 : kCodePoints;
  uint32_t code = 0xD800;
  while (code >= 0xD800 && code <= 0xDFFF) code = random.below(limit);
  append_utf8(code, text);
}

std::string mixture(Random& random, const std::vector<std::string>& list, uint32_t most) {
  std::string text;
  for (uint32_t left = random.below(most) + 1; left > 0; --left) {
    if (random.below(4) > 0) {
      text += random.of(list);
    } else {
      add_character(random, text);
    }
  }
  return text;
}

std::string words(Random& random) {
  static constexpr std::array<const char*, 7> kBetween = {" ", " ", " ", ", ", ". ", "\n", "'s "};
  std::string text;
  for (uint32_t left = random.below(30) + 1; left > 0; --left) {
    const uint32_t capital = random.below(6) == 0 ? 'A' : 'a';
    const uint32_t letters = random.below(9) + 1;
    for (uint32_t i = 0; i < letters; ++i) {
      text += static_cast<char>((i == 0 ? capital : 'a') + random.below(26));
    }
    text += kBetween[random.below(7)];
  }
  return text;
}

std::string any_bytes(Random& random) {
  std::string bytes;
  for (uint32_t left = random.below(40) + 1; left > 0; --left) {
    const bool plain = random.below(3) == 0;
    bytes += static_cast<char>(plain ? 32 + random.below(95) : 128 + random.below(128));
  }
  return bytes;
}

std::string damaged(Random& random, const std::vector<std::string>& list) {
  std::string bytes = mixture(random, list, 16);
  const auto size = static_cast<uint32_t>(bytes.size());
  for (uint32_t left = random.below(3) + 1; left > 0; --left) {
    const uint32_t at = random.below(size);
    bytes[at] = static_cast<char>(random.below(256));
  }
  if (random.below(2) == 0) return bytes;
  return bytes.substr(0, random.below(size) + 1);
}

std::string run(Random& random, const std::vector<std::string>& list) {
  const std::string& part = random.of(list);
  std::string text;
  for (uint32_t left = random.below(300) + 1; left > 0; --left) text += part;
  return text + mixture(random, list, 3);
}

}  // namespace

OddStrings::OddStrings(const std::string& folder) {
  std::ifstream file(folder + "/odd_parts.json");
  const nlohmann::json parts = nlohmann::json::parse(file);
  borders_ = parts["borders"];
  all_ = borders_;
  for (const std::string part : parts["parts"]) all_.push_back(part);
}

std::string OddStrings::make(uint32_t number) const {
  Random random(number);
  const uint32_t style = random.below(16);
  if (style == 0) return run(random, all_);
  if (style == 1) return any_bytes(random);
  if (style == 2) return damaged(random, all_);
  if (style < 5) return words(random);
  if (style < 8) return mixture(random, borders_, 12);
  return mixture(random, all_, 20);
}

}  // namespace tessera::testing
