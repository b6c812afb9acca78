// For tests of parsers: text that something happened to, and how often to try it. A commit tries a
// few hundred damages, ./test --all many more, and TESSERA_FUZZ_SECONDS=60 as many as the time has.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

#include "base/testing/share.h"

namespace tessera::testing {

class Damage {
 public:
  explicit Damage(uint64_t seed) : dice_(seed + static_cast<uint64_t>(rotation()) * 1'000'003) {}

  // One to four changes: of a byte or a bit, cut out, doubled, cut off, or something put in that
  // parsers are known to stumble over.
  std::string of(std::string text) {
    for (int64_t edits = roll(1, 4); edits > 0 && !text.empty(); --edits) {
      const auto at = static_cast<size_t>(roll(0, std::ssize(text) - 1));
      switch (roll(0, 7)) {
        case 0:
          text[at] = static_cast<char>(roll(0, 255));
          break;
        case 1:
          text[at] = static_cast<char>(text[at] ^ static_cast<char>(1 << roll(0, 7)));
          break;
        case 2:
          text.erase(at, static_cast<size_t>(roll(1, 9)));
          break;
        case 3:
          text.insert(at, text.substr(static_cast<size_t>(roll(0, std::ssize(text) - 1)),
                                      static_cast<size_t>(roll(1, 40))));
          break;
        case 4:
          if (roll(0, 3) == 0) text.resize(at);
          break;
        case 5:
          replace_number(text, at);
          break;
        default:
          text.insert(at, kTroubles[static_cast<size_t>(roll(0, std::ssize(kTroubles) - 1))]);
      }
    }
    return text;
  }

  int64_t roll(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(dice_);
  }

 private:
  static constexpr std::string_view kTroubles[] = {"18446744073709551615",
                                                   "9223372036854775807",
                                                   "9223372036854775808",
                                                   "4611686018427387904",
                                                   "-1",
                                                   "1e400",
                                                   "0.5",
                                                   "null",
                                                   "true",
                                                   "[[[[[[[[",
                                                   "{\"a\":",
                                                   "\"",
                                                   "\\",
                                                   "\\ud800",
                                                   "\xff",
                                                   std::string_view("\0", 1),
                                                   "\xff\xff\xff\xff\xff\xff\xff\x7f",
                                                   "../",
                                                   "\n",
                                                   ","};

  // The digits around `at` become another number: sizes, offsets and counts are where it hurts.
  void replace_number(std::string& text, size_t at) {
    constexpr std::string_view kDigits = "0123456789";
    const size_t begin = text.find_first_of(kDigits, at);
    if (begin == std::string::npos) return;
    const size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
    const int64_t power = roll(0, 63);
    const auto number = (uint64_t{1} << power) - static_cast<uint64_t>(roll(0, 1));
    text.replace(begin, end - begin, std::to_string(number));
  }

  std::mt19937_64 dice_;
};

// for (TryMany tries(1'500, 20'000); tries.next();) ...
class TryMany {
 public:
  TryMany(int64_t few, int64_t many) : left_(tries_all() ? many : few) {
    const char* seconds = std::getenv("TESSERA_FUZZ_SECONDS");
    if (seconds == nullptr) return;
    by_time_ = true;
    end_ = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoll(seconds));
  }
  bool next() {
    ++tried_;
    return by_time_ ? std::chrono::steady_clock::now() < end_ : left_-- > 0;
  }
  [[nodiscard]] int64_t tried() const { return tried_; }

 private:
  int64_t left_;
  int64_t tried_ = 0;
  bool by_time_ = false;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace tessera::testing
