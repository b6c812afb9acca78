// Random numbers that are the same everywhere: the distributions of the standard library differ
// between libraries.
#pragma once

#include <cstdint>
#include <iterator>

namespace tessera::testing {

// splitmix64.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t limit) {
    return static_cast<int64_t>(next() % static_cast<uint64_t>(limit));
  }
  bool one_in(int64_t n) { return below(n) == 0; }
  template <typename Container>
  const auto& pick(const Container& from) {
    return from[static_cast<size_t>(below(static_cast<int64_t>(std::size(from))))];
  }

 private:
  uint64_t state_;
};

}  // namespace tessera::testing
