// How long answers are: that which nine in ten of the last ones were not longer than.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tessera::serve {

class AnswerLengths {
 public:
  explicit AnswerLengths(int64_t before_any) : expected_(before_any) {}

  void add(int64_t tokens) {
    if (recent_.size() < kRemembered) {
      recent_.push_back(tokens);
    } else {
      recent_[next_] = tokens;
    }
    next_ = (next_ + 1) % kRemembered;
    if (recent_.size() < kEnough) return;
    sorted_ = recent_;
    const auto place = static_cast<int64_t>((sorted_.size() * 9 + 9) / 10) - 1;
    std::nth_element(sorted_.begin(), sorted_.begin() + place, sorted_.end());
    expected_ = sorted_[static_cast<size_t>(place)];
  }
  [[nodiscard]] int64_t expected() const { return expected_; }

 private:
  static constexpr size_t kRemembered = 256, kEnough = 16;
  int64_t expected_;
  std::vector<int64_t> recent_, sorted_;
  size_t next_ = 0;
};

}  // namespace tessera::serve
