// What a commit tries of tests that have many cases: a share of them, another one after every
// commit (TESSERA_ROTATION counts them), and all under ./test --all (TESSERA_TEST_ALL).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace tessera::testing {

inline bool tries_all() { return std::getenv("TESSERA_TEST_ALL") != nullptr; }

inline int64_t rotation() {
  const char* text = std::getenv("TESSERA_ROTATION");
  return text == nullptr ? 0 : std::llabs(std::atoll(text));
}

// Cases [begin, end) of `cases`, which are cut into `shares`.
struct Share {
  int64_t begin = 0, end = 0;
  [[nodiscard]] int64_t size() const { return end - begin; }
};
inline Share share_of(int64_t cases, int64_t shares) {
  if (tries_all()) return {0, cases};
  const int64_t mine = rotation() % shares;
  return {cases * mine / shares, cases * (mine + 1) / shares};
}

// Every `shares`-th of what is listed.
template <typename T>
std::vector<T> share_of(const std::vector<T>& all, int64_t shares) {
  if (tries_all()) return all;
  std::vector<T> mine;
  for (size_t i = static_cast<size_t>(rotation() % shares); i < all.size();
       i += static_cast<size_t>(shares)) {
    mine.push_back(all[i]);
  }
  return mine;
}

}  // namespace tessera::testing
